"""One way to do harm, again and again."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from chaos.scene import Scene
from chaos.world import World

#: Does harm once and waits until it is over; returns how many seconds that took.
Strike = Callable[[World, random.Random], Awaitable[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nemesis:
    name: str
    #: one sentence
    does: str
    #: the goal it is measured for
    goal: str
    #: what the seconds of a round are
    measures: str
    strike: Strike
    #: in a run of a few minutes
    rounds: int
    scene: Scene = field(default_factory=Scene)
    #: seconds that half and that 99 of 100 rounds may take
    p50_s_max: float | None = None
    p99_s_max: float | None = None
