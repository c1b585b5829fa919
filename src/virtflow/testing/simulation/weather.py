"""What goes wrong, and how often. Each seed draws its own: some faults never come, others all the time."""

import math
from collections.abc import Iterable, Mapping
from random import Random
from types import MappingProxyType

from virtflow.testing.simulation.theme import faults_of, lasting

#: fault -> lowest and highest chance of it each time it could come
AT_A_CALL: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "database call lost on its way": (0.000_5, 0.02),
        "database reply lost on its way": (0.000_5, 0.02),
        "answer to a commit lost": (0.01, 0.3),
        "database call late": (0.000_2, 0.01),
        "database call without end": (0.000_1, 0.003),
        "process stopped at a call": (0.000_5, 0.01),
        "process killed at a call": (0.000_2, 0.003),
        "leader stopped in a transaction": (0.002, 0.03),
        "transaction chosen as deadlock victim": (0.005, 0.1),
        "news lost": (0.02, 0.9),
        "message lost": (0.02, 0.9),
        "message doubled": (0.02, 0.5),
        "message late": (0.02, 0.5),
        "bus took a part": (0.02, 0.5),
        "answer of the bus lost": (0.02, 0.5),
        "request lost": (0.005, 0.1),
        "answer lost": (0.005, 0.2),
        "client gave up": (0.005, 0.1),
    }
)
#: fault -> lowest and highest number of them in a second
AT_ANY_TIME: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "process killed": (0.02, 0.4),
        "machine lost": (0.01, 0.1),
        "process told to stop": (0.02, 0.3),
        "process stopped for a while": (0.03, 0.5),
        "process cut off from the database": (0.02, 0.3),
        "process cut off from the broker": (0.02, 0.3),
        "database restarted": (0.01, 0.15),
        "database sessions ended": (0.02, 0.3),
        "broker restarted": (0.01, 0.15),
        "wall clock moved": (0.02, 0.3),
        "leader killed": (0.02, 0.3),
        "leader stopped for a while": (0.02, 0.5),
    }
)
FAULTS = (*AT_A_CALL, *AT_ANY_TIME)
#: how many of the faults a seed has, at most about so many
SHARE_MAX = 0.7
#: longer than a lease, and a little less than a statement may take
LATE_S = (0.3, 8.0)


class Weather:
    def __init__(self, chance: Random, themes: Iterable[str] = ()) -> None:
        self._chance = chance
        share = chance.uniform(0.0, SHARE_MAX)
        ranges = {**AT_A_CALL, **AT_ANY_TIME}
        self.rates = {fault: _between(chance, *ranges[fault]) for fault in FAULTS if chance.random() < share}
        self.rates |= {fault: _between(chance, *rates) for fault, rates in faults_of(themes).items()}
        self._lasting = lasting(themes)
        #: one way, usually
        self.way_s = _between(chance, 0.000_05, 0.003)
        self.slow_share = _between(chance, 0.000_1, 0.05)
        self.slow_times = _between(chance, 3, 300)
        #: how far clocks run apart
        self.drift = chance.choice((0.0, 0.0, 0.001, 0.04))

    def comes(self, fault: str) -> bool:
        """Does it come this time?"""
        rate = self.rates.get(fault)
        return rate is not None and self._chance.random() < rate

    def travel_s(self) -> float:
        way_s = self.way_s * (0.5 + self._chance.random())
        return way_s * self.slow_times if self._chance.random() < self.slow_share else way_s

    def late_s(self) -> float:
        """How long what is late stays away."""
        return _between(self._chance, *LATE_S)

    def clear(self) -> None:
        """From now on all is well, but for what the product has to live with."""
        self.rates = {fault: rate for fault, rate in self.rates.items() if fault in self._lasting}
        self.slow_share = 0.0


def _between(chance: Random, low: float, high: float) -> float:
    """Small ones as often as large ones."""
    return math.exp(chance.uniform(math.log(low), math.log(high)))
