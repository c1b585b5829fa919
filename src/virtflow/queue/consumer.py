"""Takes messages from the broker, has their tasks looked at, and only then lets the broker forget them."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from virtflow.model.errors import VirtflowError
from virtflow.model.knock import Malformed, read_knock
from virtflow.queue.contract import DeadMessage, LookAt, Observer, SetAside
from virtflow.queue.link import Link
from virtflow.queue.topology import DEAD_QUEUE, DELIVERIES_MAX, QUEUE
from virtflow.queue.trouble import FAILURES, Trouble, UnusableBroker

log = structlog.get_logger(__name__)

#: until a task is looked at again, or a broker that is away is looked for: twice as long each time
RETRY_S, RETRY_S_MAX = 0.1, 5.0
#: looking at a message failed so often by a defect: it is set aside
TRIES_MAX = 5
#: a queue that gave no answer so often in a row is made anew
SILENCES_MAX = 3
DELETE_S_MAX = 15.0


class Consumer:
    """`prefetch`: messages that the broker hands over before one of them is acknowledged."""

    def __init__(self, link: Link, *, prefetch: int, observer: Observer) -> None:
        self._link = link
        self._prefetch = prefetch
        self._observer = observer
        #: how often in a row the broker answered and the queue did not
        self._silences = 0

    async def run(self, look_at: LookAt, set_aside: SetAside) -> None:
        """Until cancelled; what was not acknowledged then goes to the next one who listens."""
        failures = 0
        try:
            while True:
                try:
                    await self._consume(look_at, set_aside)
                    failures = 0
                except (Trouble, UnusableBroker) as error:
                    self._link.failed(error)
                    failures += 1
                await self._link.drop()
                if self._silences >= SILENCES_MAX:
                    await self._make_anew()
                await asyncio.sleep(_wait_s(failures))
        finally:
            await self._link.drop()
            self._link.state = "ok"  # who does not listen misses nothing

    async def _consume(self, look_at: LookAt, set_aside: SetAside) -> None:
        """Until the connection is lost, or the broker says that the queue is gone."""
        handling: set[asyncio.Task[None]] = set()

        async def take(message: AbstractIncomingMessage) -> None:
            task = asyncio.create_task(self._handle(message, look_at, set_aside))
            handling.add(task)
            task.add_done_callback(handling.discard)

        channel = await self._channel()
        await self._link.within(channel.set_qos(prefetch_count=self._prefetch))
        underlay = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(lambda _: self._link.lost.set())
        queue = await channel.get_queue(QUEUE, ensure=False)
        try:
            await self._link.within(queue.consume(take))
        except Trouble:
            self._silences += 1
            raise
        self._silences = 0
        self._link.works()
        try:
            await self._link.lost.wait()
            self._link.failed(Trouble("network", "the connection was lost"))
        finally:
            for task in list(handling):
                task.cancel()

    async def _channel(self) -> AbstractChannel:
        try:
            return await self._link.channel()
        except Trouble:
            self._silences = 0  # it is the broker that is away
            raise

    async def _make_anew(self) -> None:
        """A quorum queue whose broker was killed in its first second never answers again. Knocks may be lost."""
        self._silences = 0
        for name in (QUEUE, DEAD_QUEUE):
            try:
                if not await self._answers(name):
                    await self._link.within((await self._link.channel()).queue_delete(name), timeout_s=DELETE_S_MAX)
                    log.warning("broker.queue_deleted", queue=name, why="it does not answer; it is made anew")
            except (Trouble, UnusableBroker) as error:
                self._link.failed(error)
            await self._link.drop()

    async def _answers(self, name: str) -> bool:
        """By taking a message, which goes back when the connection is dropped."""
        channel = await self._link.channel()
        queue = await channel.get_queue(name, ensure=False)
        try:
            await self._link.within(queue.get(fail=False))
        except Trouble:
            await self._link.drop()
            return False
        return True

    async def _handle(self, message: AbstractIncomingMessage, look_at: LookAt, set_aside: SetAside) -> None:
        try:
            dead = await self._look_at(message, look_at)
            if dead is None:
                await message.ack()
                self._observer.observe_consumed("looked_at")
                return
            log.warning("message.dead", code=dead.code, reason=dead.reason, message=message.message_id)
            await self._until_it_works(set_aside, dead)
            await message.reject(requeue=False)
            self._observer.observe_consumed("dead")
        except FAILURES:
            pass  # the connection went away: the broker hands it to the next one
        except Exception:
            log.exception("message.stuck", message=message.message_id)  # until the next one listens

    async def _look_at(self, message: AbstractIncomingMessage, look_at: LookAt) -> DeadMessage | None:
        """None when every task was looked at."""
        deliveries = message.headers.get("x-delivery-count", 0)
        if isinstance(deliveries, int) and deliveries >= DELIVERIES_MAX - 1:
            return _dead(message, "undeliverable_message", f"{deliveries} processes took it and did not finish it")
        try:
            ids = read_knock(message.body)
        except Malformed as error:
            return _dead(message, "malformed_message", str(error))
        try:
            await self._until_it_works(look_at, ids)
        except Exception as error:
            log.exception("message.failed", message=message.message_id)
            return _dead(
                message, "undeliverable_message", f"looking at its tasks fails: {type(error).__name__}: {error}"
            )
        return None

    async def _until_it_works(self, do: Callable[[Any], Awaitable[None]], what: object) -> None:
        """After growing waits. The database may be away for as long as it likes; a defect fails a few times only."""
        failures = defects = 0
        while True:
            try:
                return await do(what)
            except VirtflowError:
                pass
            except Exception:
                defects += 1
                if defects >= TRIES_MAX:
                    raise
            self._observer.observe_consumed("retried")
            failures += 1
            await asyncio.sleep(_wait_s(failures))


def _dead(message: AbstractIncomingMessage, code: str, reason: str) -> DeadMessage:
    return DeadMessage(code=code, reason=reason, body=message.body)


def _wait_s(failures: int) -> float:
    wait_s: float = min(RETRY_S_MAX, RETRY_S * 2 ** min(failures, 10))
    return wait_s * random.uniform(0.5, 1.0)
