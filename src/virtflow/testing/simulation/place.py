"""Where code runs: a process of the simulation, with its own clock, that may be stopped and may die."""

import asyncio
import collections
import contextvars

#: whose code is running; None: the world itself, which neither stops nor dies
HERE: "contextvars.ContextVar[Place | None]" = contextvars.ContextVar("place", default=None)

_EPOCH_MS = 1_700_000_000_000


def wall_ms(world_s: float) -> int:
    """By a clock that is right."""
    return _EPOCH_MS + int(world_s * 1000)


class Place:
    """One life of one process. What it had in mind is lost with it."""

    __slots__ = (
        "context",
        "is_dead",
        "is_listed",
        "is_stopped",
        "name",
        "number",
        "offset_s",
        "rate",
        "ready",
        "wall_ms",
    )

    def __init__(self, name: str, *, number: int, rate: float = 1.0, offset_s: float = 0.0, wall_ms: int = 0) -> None:
        self.name = name
        self.number = number
        #: its seconds in one of the world's
        self.rate = rate
        self.offset_s = offset_s
        #: how far its wall clock is from the world's
        self.wall_ms = wall_ms
        self.ready: collections.deque[asyncio.Handle] = collections.deque()
        self.is_stopped = False
        self.is_dead = False
        #: the loop knows that it has something to do
        self.is_listed = False
        self.context = contextvars.Context()
        self.context.run(HERE.set, self)

    def clock_s(self, world_s: float) -> float:
        return self.offset_s + self.rate * world_s

    def world_s(self, clock_s: float) -> float:
        return (clock_s - self.offset_s) / self.rate


class PlaceClock:
    """The clock of a process, as the product asks for it."""

    def __init__(self, place: Place, loop: asyncio.AbstractEventLoop) -> None:
        self._place = place
        self._loop = loop

    def now_ms(self) -> int:
        return wall_ms(self._place.rate * self._world_s()) + self._place.wall_ms

    def monotonic_s(self) -> float:
        return self._place.clock_s(self._world_s())

    def _world_s(self) -> float:
        return self._loop.world_s  # type: ignore[attr-defined,no-any-return]
