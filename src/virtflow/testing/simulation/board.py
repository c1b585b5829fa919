"""What was seen over a run of many seeds. A fault or a state that never came proves nothing about itself."""

import collections
from collections.abc import Iterable, Sequence

from virtflow.testing.simulation.theme import THEMES
from virtflow.testing.simulation.weather import FAULTS

#: states that a run of so many seeds must have seen at least once
SEEDS_MIN = 300
STATES: Sequence[str] = (
    "log: leader.began",
    "log: office.taken",
    "log: office.over",
    "log: leader.fenced",
    "log: follower.behind",
    "log: follower.up_to_date",
    "log: round.not_written",
    "office taken by a hint",
    "office taken after the lease",
    "leader cut off from the database",
    "transaction waited for another",
    "statement timed out",
    "database call timed out",
    "resting transaction ended by the server",
    "take_room refused some",
    "move_task refused some",
    "add_answer refused some",
    "client told that the outcome is unknown",
    "messages delivered again",
    "message sent back",
    "publishing failed",
    "event told again",
    "process failed to start or to stop",
    "process stopped in order",
    "order done",
    "order refused",
    "order unknown",
    "delete done",
    "cancel done",
    "cancel refused",
    "read done",
)


class Sights:
    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.seeds = 0

    def add(self, seen: dict[str, int]) -> None:
        self.seeds += 1
        self.counts.update(seen)

    @property
    def expected(self) -> list[str]:
        return [*(f"theme: {theme}" for theme in THEMES), *(f"fault: {fault}" for fault in FAULTS), *STATES]

    @property
    def missing(self) -> list[str]:
        return [what for what in self.expected if not self.counts[what]]

    @property
    def is_enough(self) -> bool:
        """So few seeds owe nothing."""
        return self.seeds < SEEDS_MIN or not self.missing

    def lines(self) -> Iterable[str]:
        for what in self.expected:
            yield f"{self.counts[what]:>9}  {what}" + ("" if self.counts[what] else "   ← never")
