"""Carries calls to the broker, beside the requests: bounded in memory, in time and in tries."""

import asyncio
import collections
import random
from collections.abc import Sequence
from uuid import uuid4

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel

from virtflow.model.knock import CONTENT_TYPE, write_knock
from virtflow.model.limits import CALLS_MAX, IDS_PER_MESSAGE_MAX, PUBLISH_TRIES_MAX
from virtflow.queue.contract import Observer
from virtflow.queue.link import Link
from virtflow.queue.topology import DEAD_EXCHANGE, EXCHANGE, FAILED_KEY, ROUTING_KEY
from virtflow.queue.trouble import Trouble, UnusableBroker

#: until the second try, and twice that until the third
RETRY_S = 0.1
#: until a broker that is away is looked for again
RECONNECT_S, RECONNECT_S_MAX = 0.1, 5.0
FLUSH_S_MAX = 2.0


class Route:
    """Where messages go, and the calls that wait for it: of too many the oldest are dropped."""

    def __init__(self, exchange: str, key: str) -> None:
        self.exchange = exchange
        self.key = key
        self.calls: collections.deque[bytes] = collections.deque(maxlen=CALLS_MAX)

    def put(self, ids: Sequence[bytes]) -> int:
        """Returns how many were dropped."""
        dropped = max(0, len(self.calls) + len(ids) - CALLS_MAX)
        self.calls.extend(ids)
        return dropped

    def take(self) -> list[bytes]:
        return [self.calls.popleft() for _ in range(min(len(self.calls), IDS_PER_MESSAGE_MAX))]

    def put_back(self, ids: Sequence[bytes]) -> int:
        """They came before all others, so they are the first to be dropped; returns how many were."""
        kept = ids[max(0, len(self.calls) + len(ids) - CALLS_MAX) :]
        self.calls.extendleft(reversed(kept))
        return len(ids) - len(kept)


class Publisher:
    def __init__(self, link: Link, *, observer: Observer) -> None:
        self._link = link
        self._observer = observer
        self.called = Route(EXCHANGE, ROUTING_KEY)
        self.buried = Route(DEAD_EXCHANGE, FAILED_KEY)
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        #: the last message was not confirmed: a new connection alone proves nothing
        self._is_in_doubt = False

    def put(self, route: Route, ids: Sequence[bytes]) -> None:
        if not ids:
            return
        if dropped := route.put(ids):
            self._observer.observe_lost_calls(dropped)
        self._idle.clear()
        self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._reconnect()
            await self._carry_all()
            await self._wait()

    async def flush(self) -> None:
        try:
            async with asyncio.timeout(FLUSH_S_MAX):
                await self._idle.wait()
        except TimeoutError:
            self._observer.observe_lost_calls(len(self.called.calls))

    async def _reconnect(self) -> None:
        """What is called meanwhile waits, within its bounds."""
        wait_s = RECONNECT_S
        while not self._link.is_open:
            try:
                await self._link.channel()
                if not self._is_in_doubt:
                    self._link.works()
            except (Trouble, UnusableBroker) as error:
                self._link.failed(error)
                await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
                wait_s = min(RECONNECT_S_MAX, 2 * wait_s)

    async def _carry_all(self) -> None:
        self._news.clear()
        for route in (self.called, self.buried):
            while self._link.is_open and (ids := route.take()):
                await self._carry(route, ids)
        if not (self.called.calls or self.buried.calls):
            self._idle.set()

    async def _wait(self) -> None:
        """For a call, or for the end of the connection."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._news, self._link.lost)]
        try:
            if self._link.is_open:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _carry(self, route: Route, ids: list[bytes]) -> None:
        """One message, at most three times. Where the broker is away, its calls wait for it."""
        body, is_away = write_knock(ids), False
        for number in range(PUBLISH_TRIES_MAX):
            if number:
                await asyncio.sleep(RETRY_S * 2 ** (number - 1) * random.uniform(0.5, 1.0))
            try:
                await self._send(route, body)
            except (Trouble, UnusableBroker) as error:
                reason = error.reason if isinstance(error, Trouble) else "misconfigured"
                self._observer.observe_published(reason)
                self._link.failed(error)
                is_away = reason == "network"
                self._is_in_doubt = not is_away
                await self._link.drop()  # whatever it was: what is made and declared anew may work
            else:
                self._observer.observe_published("confirmed")
                self._observer.observe_confirmed(ids)
                self._is_in_doubt = False
                self._link.works()
                return
        self._observer.observe_lost_calls(route.put_back(ids) if is_away else len(ids))

    async def _send(self, route: Route, body: bytes) -> None:
        """Returns when the broker has it on its disks."""
        channel = await self._link.channel()
        message = Message(
            body,
            message_id=str(uuid4()),
            content_type=CONTENT_TYPE,
            type=route.key,
            app_id="virtflow",
            delivery_mode=DeliveryMode.PERSISTENT,
        )
        await self._link.within(_publish(channel, route, message))


async def _publish(channel: AbstractChannel, route: Route, message: Message) -> None:
    exchange = await channel.get_exchange(route.exchange, ensure=False)
    await exchange.publish(message, route.key, mandatory=True)
