"""What was found: for each invariant, whether it holds, and the first that break it."""

import dataclasses
from collections.abc import Mapping, Sequence

import msgspec

from virtflow.control.history.invariants import INVARIANTS, Source

#: of each invariant; more are counted, not listed
SHOWN_MAX = 10


class Violation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that breaks an invariant."""

    text: str
    #: the event that shows it, where one does
    seq: int = 0
    #: the task, VM, host or pool
    id: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said about one invariant."""

    id: str
    statement: str
    #: holds, violated, or not_judged
    verdict: str
    #: why it was not judged
    remark: str = ""
    violations: int = 0
    first: tuple[Violation, ...] = ()


@dataclasses.dataclass(slots=True)
class Report:
    hosts: int = 0
    vms: int = 0
    tasks: int = 0
    answers: int = 0
    events: int = 0
    #: operations of clients
    operations: int = 0
    oldest_event: int = 1
    newest_event: int = 0
    sources: set[Source] = dataclasses.field(default_factory=lambda: {Source.TABLES, Source.LOG})
    _counts: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(INVARIANTS, 0))
    _first: dict[str, list[Violation]] = dataclasses.field(default_factory=lambda: {key: [] for key in INVARIANTS})

    @property
    def is_whole(self) -> bool:
        """Are all events kept? Objects older than the oldest kept are judged by their rows alone."""
        return self.oldest_event <= 1

    @property
    def violations_total(self) -> int:
        return sum(self._counts.values())

    @property
    def violated(self) -> list[str]:
        return [key for key, count in self._counts.items() if count]

    def add(self, invariant: str, text: str, *, seq: int = 0, id: str = "") -> None:  # noqa: A002  as it is shown
        self._counts[invariant] += 1
        if len(self._first[invariant]) < SHOWN_MAX:
            self._first[invariant].append(Violation(text, seq, id))

    def add_all(self, invariant: str, count: int, first: Sequence[tuple[str, int]]) -> None:
        """Many at once, of which the first few are shown."""
        for text, seq in first[:count]:
            self.add(invariant, text, seq=seq)
        self._counts[invariant] += count - len(first[:count])

    def verdicts(self) -> list[Verdict]:
        return [self._verdict(key) for key in INVARIANTS]

    def document(self) -> Mapping[str, object]:
        """For programs."""
        return {
            "holds": not self.violations_total,
            "violations_total": self.violations_total,
            "hosts": self.hosts,
            "vms": self.vms,
            "tasks": self.tasks,
            "answers": self.answers,
            "events": self.events,
            "operations": self.operations,
            "oldest_event": self.oldest_event,
            "newest_event": self.newest_event,
            "whole_history": self.is_whole,
            "invariants": [msgspec.to_builtins(verdict) for verdict in self.verdicts()],
        }

    def _verdict(self, key: str) -> Verdict:
        invariant, count = INVARIANTS[key], self._counts[key]
        judged = bool(self.sources & set(invariant.sources))
        remark = "" if judged else invariant.remark or f"needs {invariant.sources[0].value}"
        verdict = "violated" if count else "holds" if judged else "not_judged"
        return Verdict(
            id=key,
            statement=invariant.statement,
            verdict=verdict,
            remark=remark,
            violations=count,
            first=tuple(self._first[key]),
        )
