"""What happened to each task and each VM along the log: I3, I4, I5, I8."""

from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from virtflow.control.history.keys import KeyBook, Keys, key_array, places_of
from virtflow.control.history.log import Commit
from virtflow.control.history.report import SHOWN_MAX, Report

#: The states as the log spells them; 0 is "there was nothing", the last is a word nobody knows.
STATES = ("", "queued", "processing", "completed", "failed", "cancelled")
QUEUED, COMPLETED, UNKNOWN = 1, 3, 7
_ENDS = np.array([False, False, False, True, True, True, False, False])
_TYPES = ("task.accepted", "task.retried", "task.completed", "task.failed", "task.cancelled")
#: Which event may lead from which state to which.
_LEGAL_STEPS = {
    "task.accepted": (("", "queued"),),
    "task.retried": (("queued", "queued"),),
    "task.completed": (("", "completed"), ("queued", "completed")),
    "task.failed": (("", "failed"), ("queued", "failed")),
    "task.cancelled": (("queued", "cancelled"),),
}
_STATE_NUMBERS = {word: number for number, word in enumerate(STATES)}
_TYPE_NUMBERS = {word: number for number, word in enumerate(_TYPES)}
#: A type that is none of the above leads nowhere.
_LEGAL = np.zeros((len(_TYPES) + 1, 8, 8), np.bool_)
for _type, _steps in _LEGAL_STEPS.items():
    for _was, _now in _steps:
        _LEGAL[_TYPE_NUMBERS[_type], _STATE_NUMBERS[_was], _STATE_NUMBERS[_now]] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How the log leaves each task and VM: one place for each in every array, in the order of `keys`."""

    keys: Keys
    state: NDArray[np.int64]
    version: NDArray[np.int64]
    #: the number of the host that a completed task got, among `host_names`; -1 where there is none
    host: NDArray[np.int64]
    #: got its host after it had waited
    is_late: NDArray[np.bool_]
    #: what is wrong with it was told, so that its row need not agree
    is_broken: NDArray[np.bool_]
    #: the VM was deleted
    is_deleted: NDArray[np.bool_]
    host_names: tuple[str, ...]


class Moves:
    """Collects 40 bytes of each event, and judges when the log was read."""

    def __init__(self, report: Report, book: KeyBook) -> None:
        self._report = report
        self._book = book
        self._hosts: dict[str, int] = {"": -1}
        self._tasks = _Columns()
        self._deleted = _Columns()

    def take(self, commit: Commit) -> None:
        key_of, hosts = self._book.of_text, self._hosts
        for seq, line in enumerate(commit.lines, start=commit.first):
            if line.kind == "task":
                host = hosts.get(line.host)
                if host is None:
                    host = hosts[line.host] = len(hosts) - 1
                what = _TYPE_NUMBERS.get(line.type, len(_TYPES)) << 8
                what |= _STATE_NUMBERS.get(line.was, UNKNOWN) << 4 | _STATE_NUMBERS.get(line.now, UNKNOWN)
                self._tasks.add(key_of(line.id), seq, line.version, what, host)
            elif line.kind == "vm":
                self._deleted.add(key_of(line.id), seq, line.version, 0, -1)

    def judge(self) -> Told:
        keys, seq, version, what, host = self._tasks.sorted()
        first = _first_of_each(keys)
        was, now = what >> 4 & 7, what & 7
        ends = _ENDS[now]
        ended_before = _counted_before(ends, first) > 0
        follows = first | (was == _previous(now))
        opens = ~first | (was == 0) if self._report.is_whole else np.ones(len(keys), np.bool_)
        twice, after = ends & ended_before, ~ends & ended_before
        illegal = ~ended_before & ~(_LEGAL[what >> 8, was, now] & follows & opens)
        self._tell("I3", twice, keys, seq, "ends task {key} a second time")
        self._tell("I4", after, keys, seq, "moves task {key}, which had ended")
        self._tell("I5", illegal, keys, seq, "leads task {key} where it could not go from there")
        self._check_versions(keys, seq, version, first)
        start = np.flatnonzero(first)
        last = np.append(start[1:], len(keys))[: len(start)] - 1
        broken = twice | after | illegal
        told = Told(
            keys=keys[start],
            state=now[last],
            version=version[last],
            host=host[last],
            is_late=was[last] == QUEUED,
            is_broken=np.logical_or.reduceat(broken, start) if len(start) else broken,
            is_deleted=np.zeros(len(start), np.bool_),
            host_names=tuple(self._hosts)[1:],
        )
        self._judge_deletions(told, seq[last])
        return told

    def _check_versions(self, keys: Keys, seq: Any, version: Any, first: NDArray[np.bool_]) -> None:
        expected = np.where(first, 1, _previous(version) + 1)
        judged = ~first | self._report.is_whole
        self._tell("I8", judged & (version != expected), keys, seq, "makes a leap in the versions of task {key}")

    def _judge_deletions(self, told: Told, last_seq: NDArray[np.int64]) -> None:
        keys, seq, version, _, _ = self._deleted.sorted()
        again = ~_first_of_each(keys)
        self._tell("I4", again, keys, seq, "deletes VM {key} a second time")
        places, known = places_of(keys, told.keys)
        if self._report.is_whole:
            self._tell("I5", ~known, keys, seq, "deletes VM {key}, which was never there")
        judged = known & ~again
        keys, seq, version, places = keys[judged], seq[judged], version[judged], places[judged]
        afterwards = (last_seq[places] > seq) & ~told.is_broken[places]
        self._tell("I4", afterwards, keys, seq, "deletes VM {key}, whose task moved afterwards")
        late = told.is_late[places] & (told.state[places] == COMPLETED)
        self._tell("I8", version != 2 + late, keys, seq, "makes a leap in the versions of VM {key}")
        told.is_deleted[places] = True

    def _tell(self, invariant: str, wrong: NDArray[np.bool_], keys: Keys, seq: Any, what: str) -> None:
        found = np.flatnonzero(wrong)
        found = found[np.argsort(seq[found])]
        self._report.add_all(
            invariant,
            len(found),
            [
                (f"event {seq[place]} {what.format(key=self._book.text(keys[place]))}", int(seq[place]))
                for place in found[:SHOWN_MAX]
            ],
        )


class _Columns:
    """Growing columns: 16 bytes of key, and three numbers packed into two."""

    def __init__(self) -> None:
        self._keys = bytearray()
        self._seq = array("q")
        self._packed = array("q")

    def add(self, key: bytes, seq: int, version: int, what: int, host: int) -> None:
        self._keys += key
        self._seq.append(seq)
        self._packed.append((host + 1) << 40 | (version & 0xFFFFFF) << 16 | what)

    def sorted(self) -> tuple[Keys, Any, Any, Any, Any]:
        """By key, and in the order of the log where it is the same: keys, numbers, versions, moves, hosts."""
        keys = key_array(self._keys)
        order = np.argsort(keys, kind="stable")
        packed = np.array(self._packed, np.int64)[order]
        return (
            keys[order],
            np.array(self._seq, np.int64)[order],
            packed >> 16 & 0xFFFFFF,
            packed & 0xFFFF,
            (packed >> 40) - 1,
        )


def _first_of_each(keys: Keys) -> NDArray[np.bool_]:
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    return first


def _previous(column: Any) -> Any:
    shifted = np.zeros_like(column)
    shifted[1:] = column[:-1]
    return shifted


def _counted_before(marked: NDArray[np.bool_], first: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many marked ones stand before each, of the same key."""
    before: NDArray[np.int64] = np.cumsum(marked) - marked
    return before - before[first][np.cumsum(first) - 1] if len(marked) else before
