"""A bus outside that remembers what arrived, and sinks that lead there."""

import asyncio
from collections.abc import Sequence

from virtflow.events import CloudEvent, SinkFailed
from virtflow.testing.simulation.network import Broken, Network, Reply, Wire
from virtflow.testing.simulation.place import Place
from virtflow.testing.simulation.trace import Trace
from virtflow.testing.simulation.weather import Weather

NAME = "nats"
SEND_S_MAX = 5.0


class Bus:
    def __init__(self, *, network: Network, weather: Weather, trace: Trace) -> None:
        self.network = network
        self._weather = weather
        self._trace = trace
        #: number, subject and type of what arrived, doubles included
        self.arrived: list[tuple[int, str, str]] = []

    def take(self, reply: Reply, events: Sequence[CloudEvent]) -> None:
        taken = len(events)
        if taken > 1 and self._comes("bus took a part"):
            taken //= 2
        if self.arrived and events and int(events[0].sequence) <= self.arrived[-1][0]:
            self._trace.sight("event told again")
        self.arrived += [(int(event.sequence), event.subject, event.type) for event in events[:taken]]
        if not self._comes("answer of the bus lost"):
            reply.give(taken)

    def _comes(self, fault: str) -> bool:
        comes = self._weather.comes(fault)
        if comes:
            self._trace.fault(NAME, fault)
        return comes


class SimulatedSink:
    name = NAME

    def __init__(self, bus: Bus, place: Place, trace: Trace) -> None:
        self._bus = bus
        self._place = place
        self._trace = trace

    async def send(self, events: Sequence[CloudEvent]) -> None:
        wire = Wire(self._bus.network, self._place, "bus")
        numbers = f"{int(events[0].sequence)} to {int(events[-1].sequence)}" if events else "nothing"
        self._trace.say(self._place.name, f"tells the bus {numbers}")
        try:
            async with asyncio.timeout(SEND_S_MAX):
                taken = await wire.ask(lambda reply: self._bus.take(reply, events), loses_call=False, loses_reply=False)
        except (Broken, TimeoutError) as error:
            raise SinkFailed("the bus did not answer in time") from error
        finally:
            wire.drop()
        if taken < len(events):
            raise SinkFailed("it took no more", taken=taken)

    async def close(self) -> None:
        pass
