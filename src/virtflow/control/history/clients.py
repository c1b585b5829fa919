"""What clients wrote down before and after each call, beside the database: I15, I16, I17.

A file is JSON lines, two for each operation: `call` before it, and after it `ok`, `fail` (it certainly did nothing) or
`info` (nobody knows). Times are of one monotonic clock.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from virtflow.control.history.keys import KeyBook, digest, key_array, places_of
from virtflow.control.history.report import Report
from virtflow.control.history.tables import Tables
from virtflow.model.errors import InvalidRequest

_END_OF_TIME = 2**63


class Entry(msgspec.Struct, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a file."""

    at: int
    client: str
    op: int
    phase: Literal["call", "ok", "fail", "info"]
    #: said by the call: what is done to which object
    do: Literal["create", "delete", "change", "read", ""] = ""
    kind: Literal["vm", "host", ""] = ""
    name: str = ""
    #: of the Idempotency-Key, where there is one
    key: str = ""
    #: said by the end: the id of the task or VM, the object's version, and whether it was not there
    id: str = ""
    version: int = 0
    absent: bool = False


class Operation(msgspec.Struct, kw_only=True):
    """A call and its end."""

    do: str
    kind: str
    name: str
    key: str
    began: int
    ended: int = _END_OF_TIME
    phase: str = "info"
    id: str = ""
    version: int = 0
    absent: bool = False


_decode = msgspec.json.Decoder(Entry).decode


def read_histories(files: Sequence[Path], progress: Callable[[str, int], None]) -> list[Operation]:
    """InvalidRequest names the file and the line that cannot be read."""
    operations: dict[tuple[str, int], Operation] = {}
    for file in files:
        for number, entry in _entries(file):
            known = operations.get((entry.client, entry.op))
            if (entry.phase == "call") != (known is None):
                what = "is called twice" if known else "ends without a call"
                raise InvalidRequest(f"{file}:{number}: operation {entry.op} of client {entry.client} {what}")
            if known is None:
                operations[entry.client, entry.op] = Operation(
                    do=entry.do, kind=entry.kind, name=entry.name, key=entry.key, began=entry.at
                )
            else:
                known.phase, known.ended, known.id = entry.phase, entry.at, entry.id
                known.version, known.absent = entry.version, entry.absent
        progress("operations", len(operations))
    return list(operations.values())


def _entries(file: Path) -> Iterator[tuple[int, Entry]]:
    try:
        lines = file.read_bytes().split(b"\n")[:-1]  # a client that was killed leaves half a line, which says nothing
    except OSError as error:
        raise InvalidRequest(f"{file}: {error.strerror}", remedy="name files that clients wrote") from error
    for number, line in enumerate(lines, start=1):
        try:
            yield number, _decode(line)
        except msgspec.DecodeError as error:
            remedy = "docs/fsck.md describes what a line looks like"
            raise InvalidRequest(f"{file}:{number}: {error}", remedy=remedy) from error


class Clients:
    """Judges operations by each other and by the tables."""

    def __init__(self, operations: Sequence[Operation], tables: Tables, report: Report, book: KeyBook) -> None:
        self._tables = tables
        self._report = report
        self._book = book
        self._vms: dict[str, list[Operation]] = defaultdict(list)
        self._objects: dict[tuple[str, str], list[Operation]] = defaultdict(list)
        self._keys: dict[str, list[Operation]] = defaultdict(list)
        for one in operations:
            if one.kind == "vm":
                self._vms[one.name].append(one)
            if one.key:
                self._keys[one.key].append(one)
            self._objects[one.kind, one.name].append(one)
        report.operations = len(operations)

    def check(self) -> None:
        for key, calls in self._keys.items():
            ids = sorted({one.id for one in calls if one.phase == "ok" and one.id})
            if len(ids) > 1:
                self._report.add("I15", f"Idempotency-Key {key} was answered with {' and with '.join(ids)}", id=key)
        self._check_presence()
        for (kind, name), calls in self._objects.items():
            self._check_versions(f"{kind} {name}", calls)
            if kind == "vm":
                self._check_existence(name, calls)

    # ── acknowledged and refused ──────────────────────────────────────────────────────────────────

    def _check_presence(self) -> None:
        named = self._are_there([name for name in self._vms if name])
        acknowledged = {one.id: one for calls in self._vms.values() for one in _acknowledged(calls, "create") if one.id}
        tasks = self._known(list(acknowledged), among_tasks=True)
        for task_id, one in acknowledged.items():
            if not tasks[task_id]:
                told = f"VM {one.name} was acknowledged as {task_id}, there is no such task"
                self._report.add("I16", told, id=task_id)
        for name, calls in self._vms.items():
            if name:
                self._check_named(name, calls, is_there=named[name])

    def _check_named(self, name: str, calls: Sequence[Operation], *, is_there: bool) -> None:
        creates = [one for one in calls if one.do == "create"]
        deletes = [one for one in calls if one.do == "delete"]
        made = _acknowledged(creates, "create")
        if made and not is_there and not deletes and not self._was_refused_later(made[0]):
            self._report.add("I16", f"VM {name} was acknowledged, nobody deleted it, and it is not there", id=name)
        if is_there and creates and all(one.phase == "fail" for one in creates):
            self._report.add("I16", f"VM {name} was refused, and it is there", id=name)
        if is_there and any(_ends_it(one, creates) for one in deletes):
            self._report.add("I16", f"the deletion of VM {name} was acknowledged, and it is there", id=name)

    def _was_refused_later(self, made: Operation) -> bool:
        """An accepted request may fail for want of a host: then its task says so."""
        tasks = self._tables.tasks
        places, known = places_of(key_array(self._book.of_text(made.id)), tasks.keys)
        return bool(made.id and known[0] and tasks.state[places[0]] > 2)

    def _are_there(self, names: Sequence[str]) -> dict[str, bool]:
        """Given names, and those that follow from ids."""
        wanted = key_array(b"".join(digest(name.encode()) for name in names))
        known = places_of(wanted, np.sort(self._tables.vms.names))[1]
        return dict(zip(names, known.tolist(), strict=True))

    def _known(self, ids: Sequence[str], *, among_tasks: bool) -> dict[str, bool]:
        wanted = key_array(b"".join(map(self._book.of_text, ids)))
        known = places_of(wanted, (self._tables.tasks if among_tasks else self._tables.vms).keys)[1]
        return dict(zip(ids, known.tolist(), strict=True))

    # ── real time ─────────────────────────────────────────────────────────────────────────────────

    def _check_versions(self, what: str, calls: Iterable[Operation]) -> None:
        """Who began after another had ended got a greater version by a change, and no smaller one by reading."""
        told = [one for one in calls if one.phase == "ok" and one.version]
        endings = iter(sorted(told, key=lambda one: one.ended))
        ended, newest = next(endings, None), 0
        for one in sorted(told, key=lambda one: one.began):
            while ended is not None and ended.ended < one.began:
                newest = max(newest, ended.version)
                ended = next(endings, None)
            if one.version < newest + (one.do == "change"):
                told_text = f"{what}: a {one.do} got version {one.version} after {newest} had been answered"
                self._report.add("I17", told_text, id=one.name)

    def _check_existence(self, name: str, calls: Sequence[Operation]) -> None:
        created = min((one.ended for one in _acknowledged(calls, "create")), default=_END_OF_TIME)
        deleting = min((one.began for one in calls if one.do == "delete"), default=_END_OF_TIME)
        creates = [one for one in calls if one.do == "create"]
        deleted = min(
            (one.ended for one in calls if one.do == "delete" and _ends_it(one, creates)), default=_END_OF_TIME
        )
        for one in calls:
            if one.do != "read" or one.phase != "ok":
                continue
            if one.absent and created < one.began and one.ended < deleting:
                self._report.add("I17", f"VM {name} was not found after it had been acknowledged", id=name)
            if not one.absent and deleted < one.began:
                self._report.add("I17", f"VM {name} was found after its deletion had been acknowledged", id=name)


def _acknowledged(calls: Iterable[Operation], do: str) -> list[Operation]:
    return [one for one in calls if one.do == do and one.phase == "ok"]


def _ends_it(delete: Operation, creates: Sequence[Operation]) -> bool:
    """An acknowledged deletion ends a VM for good when nobody was still creating it."""
    return delete.phase == "ok" and all(one.phase != "info" and one.ended < delete.began for one in creates)
