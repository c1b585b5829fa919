"""A broker that keeps messages until they are acknowledged, and ways to it that lose, double and delay them."""

import asyncio
import collections
import contextlib
from collections.abc import Callable, Sequence
from random import Random

from virtflow.model.errors import Unavailable, VirtflowError
from virtflow.queue import LookAt, SetAside
from virtflow.testing.simulation.network import Broken, Network, Reply, Wire
from virtflow.testing.simulation.place import Place
from virtflow.testing.simulation.trace import Trace
from virtflow.testing.simulation.weather import Weather

NAME = "broker"
PREFETCH = 4
LATE_S_MAX = 5.0
PUBLISH_S_MAX = 5.0
PUBLISH_TRIES_MAX = 3
FLUSH_S_MAX = 2.0
AGAIN_S = 0.5

Ids = tuple[bytes, ...]


class _Consumer:
    def __init__(self, place: Place, deliver: Callable[[int, Ids], None]) -> None:
        self.place = place
        self.deliver = deliver
        self.unacknowledged: dict[int, Ids] = {}


class BrokerServer:
    def __init__(self, *, network: Network, weather: Weather, trace: Trace, chance: Random) -> None:
        self._network = network
        self._weather = weather
        self._trace = trace
        self._chance = chance
        self._messages: collections.deque[Ids] = collections.deque()
        self._consumers: dict[Wire, _Consumer] = {}
        self._numbers = 0
        self._wires: dict[Wire, None] = {}
        self.is_up = True

    def connect(self, place: Place) -> Wire:
        if not self.is_up:
            raise Broken
        wire = Wire(self._network, place, NAME, hung_up=self._hung_up)
        self._wires[wire] = None
        return wire

    def go_down(self) -> None:
        self.is_up = False
        for wire in list(self._wires):
            wire.break_()

    def come_up(self) -> None:
        self.is_up = True

    def lose_process(self, place: Place) -> None:
        for wire in [wire for wire in self._wires if wire.place is place]:
            wire.drop()

    def publish(self, reply: Reply, ids: Ids) -> None:
        if self._weather.comes("message lost"):
            self._trace.fault(NAME, "message lost")
        elif self._weather.comes("message late"):
            self._trace.fault(NAME, "message late")
            self._network.after(self._chance.uniform(0, LATE_S_MAX), lambda: self._take(ids))
        else:
            self._take(ids)
            if self._weather.comes("message doubled"):
                self._trace.fault(NAME, "message doubled")
                self._take(ids)
        reply.give(None)

    def consume(self, wire: Wire, reply: Reply, deliver: Callable[[int, Ids], None]) -> None:
        self._consumers[wire] = _Consumer(wire.place, deliver)
        reply.give(None)
        self._serve()

    def acknowledge(self, wire: Wire, number: int, *, again: bool) -> None:
        consumer = self._consumers.get(wire)
        ids = consumer.unacknowledged.pop(number, None) if consumer else None
        if ids is not None and again:
            self._trace.sight("message sent back")
            self._network.after(AGAIN_S, lambda: self._take(ids))
        self._serve()

    def _take(self, ids: Ids) -> None:
        self._messages.append(ids)
        self._serve()

    def _serve(self) -> None:
        for wire, consumer in self._consumers.items():
            while self._messages and len(consumer.unacknowledged) < PREFETCH:
                ids = self._messages.popleft()
                self._numbers += 1
                consumer.unacknowledged[self._numbers] = ids
                number = self._numbers
                wire.carry_back(
                    lambda consumer=consumer, number=number, ids=ids: self._network.run_at(  # type: ignore[misc]
                        consumer.place, lambda: consumer.deliver(number, ids)
                    )
                )

    def _hung_up(self, wire: Wire) -> None:
        self._wires.pop(wire, None)
        consumer = self._consumers.pop(wire, None)
        if consumer is not None and consumer.unacknowledged:
            self._trace.sight("messages delivered again")
            self._messages.extendleft(reversed(consumer.unacknowledged.values()))
            self._serve()


class SimulatedQueue:
    """What `queue/` is to a real broker: the same promises, by the same contract."""

    def __init__(self, server: BrokerServer, place: Place, trace: Trace) -> None:
        self.state = "ok"
        self._server = server
        self._place = place
        self._trace = trace
        self._called: list[bytes] = []
        self._news = asyncio.Event()
        self._carried = asyncio.Event()

    def call(self, ids: Sequence[bytes]) -> None:
        self._called += ids
        self._news.set()

    def bury(self, ids: Sequence[bytes]) -> None:
        self._trace.sight("failed tasks told to the broker")

    async def open(self) -> None:
        pass

    async def publish(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            ids, self._called = tuple(self._called), []
            for number in range(PUBLISH_TRIES_MAX):
                if await self._publish_once(ids):
                    break
                await asyncio.sleep(AGAIN_S * (number + 1))
            if not self._called:
                self._carried.set()

    async def flush(self) -> None:
        if self._called:
            self._carried.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S_MAX):
                    await self._carried.wait()

    async def _publish_once(self, ids: Ids) -> bool:
        try:
            wire = self._server.connect(self._place)
            try:
                async with asyncio.timeout(PUBLISH_S_MAX):
                    await wire.ask(lambda reply: self._server.publish(reply, ids), loses_call=False, loses_reply=False)
            finally:
                wire.drop()
        except (Broken, TimeoutError):
            self._trace.sight("publishing failed")
            return False
        return True

    async def listen(self, look_at: LookAt, set_aside: SetAside) -> None:
        while True:
            try:
                await self._listen_once(look_at)
            except (Broken, TimeoutError):
                await asyncio.sleep(AGAIN_S)

    async def _listen_once(self, look_at: LookAt) -> None:
        wire = self._server.connect(self._place)
        inbox: asyncio.Queue[tuple[int, Ids] | None] = asyncio.Queue()
        wire.on_break = lambda: inbox.put_nowait(None)
        try:
            async with asyncio.timeout(PUBLISH_S_MAX):
                await wire.ask(
                    lambda reply: self._server.consume(
                        wire, reply, lambda number, ids: inbox.put_nowait((number, ids))
                    ),
                    loses_call=False,
                    loses_reply=False,
                )
            while (message := await inbox.get()) is not None:
                await self._look_at(wire, message, look_at)
        finally:
            wire.drop()

    async def _look_at(self, wire: Wire, message: tuple[int, Ids], look_at: LookAt) -> None:
        number, ids = message
        again = False
        try:
            await look_at(ids)
        except VirtflowError as error:
            self._trace.sight("message could not be looked at now")
            again = isinstance(error, Unavailable)
        wire.tell(lambda: self._server.acknowledge(wire, number, again=again))

    async def close(self) -> None:
        pass
