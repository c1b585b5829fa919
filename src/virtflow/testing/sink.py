"""A bus in memory: keeps what it was sent, and goes away when told."""

import asyncio
from collections.abc import Sequence

from virtflow.events import CloudEvent, SinkFailed


class MemorySink:
    def __init__(self, name: str = "memory") -> None:
        self.name = name
        #: everything that arrived, doubles included
        self.arrived: list[CloudEvent] = []
        self.is_away = False
        #: of the next call it takes no more than this
        self.takes: int | None = None
        self.calls = 0
        self.is_closed = False

    async def send(self, events: Sequence[CloudEvent]) -> None:
        self.calls += 1
        await asyncio.sleep(0)  # as everything does that leaves the house
        if self.is_away:
            raise SinkFailed("nobody listens there", remedy="let it come back")
        taken, self.takes = events[: self.takes], None
        self.arrived += taken
        if len(taken) < len(events):
            raise SinkFailed("it took no more", remedy="ask it again", taken=len(taken))

    async def close(self) -> None:
        self.is_closed = True

    @property
    def numbers(self) -> list[int]:
        """Of the events that arrived, doubles included."""
        return [int(event.sequence) for event in self.arrived]
