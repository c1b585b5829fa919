"""What happened to each host and pool along the log, beside their rows: I5, I8, I10."""

from collections.abc import Mapping
from typing import NamedTuple

from virtflow.control.history.log import Commit, Line
from virtflow.control.history.report import Report
from virtflow.control.history.room import Amounts, host_data


class HostRow(NamedTuple):
    """A living host, as its row has it."""

    id: int
    version: int
    cordoned: bool
    allocatable: Amounts


class Objects:
    """The last that the log says of each host and each pool; None: it was deleted."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._hosts: dict[str, Line | None] = {}
        self._pools: dict[str, Line | None] = {}

    def take(self, commit: Commit) -> None:
        for seq, line in enumerate(commit.lines, start=commit.first):
            if line.kind == "host":
                self._move_host(line, seq)
            elif line.kind == "pool":
                self._move_pool(line, seq)

    def _move_host(self, line: Line, seq: int) -> None:
        before = self._hosts.get(line.id)
        is_new = line.type == "host.registered"
        knows = line.id in self._hosts or self._report.is_whole
        if knows and is_new == (before is not None):
            what = "registers host {}, which is there" if is_new else "tells of host {}, which is not there"
            self._report.add("I5", f"event {seq} {what.format(line.id)}", seq=seq, id=line.id)
        elif line.version != (before.version + 1 if before else 1) and (is_new or before):
            told = f"event {seq} makes host {line.id} version {line.version} after {before.version if before else 0}"
            self._report.add("I8", told, seq=seq, id=line.id)
        self._hosts[line.id] = None if line.type == "host.deleted" else line

    def _move_pool(self, line: Line, seq: int) -> None:
        before = self._pools.get(line.id)
        is_end = line.type == "pool.deleted"
        expected = (before.version if before else 0) + (not is_end)  # forgetting what was said is no new version
        if (before is not None or (line.id in self._pools or self._report.is_whole)) and line.version != expected:
            told = f"event {seq} makes the settings of pool {line.id!r} version {line.version}, not {expected}"
            self._report.add("I8", told, seq=seq, id=line.id)
        self._pools[line.id] = None if is_end else line

    def compare_hosts(self, rows: Mapping[str, HostRow]) -> None:
        for name, told in self._hosts.items():
            row = rows.get(name)
            if row is None and told is not None:
                self._differs(name, f"host {name} has no row, the last event tells of version {told.version}")
            elif row is not None and told is None:
                self._differs(name, f"host {name} has a row, the last event says that it was deleted")
            elif row is not None and told is not None:
                self._compare_host(name, row, told)
        if self._report.is_whole:
            for name in rows.keys() - self._hosts.keys():
                self._differs(name, f"host {name} has a row, no event tells of it")

    def _compare_host(self, name: str, row: HostRow, told: Line) -> None:
        data = host_data(told)
        if row.version != told.version:
            self._differs(name, f"host {name} is at version {row.version}, the last event says {told.version}")
        elif row.cordoned != data.cordoned:
            self._differs(name, f"whether host {name} is cordoned: the row and the last event disagree")
        elif row.allocatable != data.allocatable:
            self._differs(
                name, f"what host {name} may give: the row says {row.allocatable}, {data.allocatable} is told"
            )

    def compare_pools(self, versions: Mapping[str, int]) -> None:
        for name, told in self._pools.items():
            version = told.version if told else None
            if versions.get(name) != version:
                self._differs(
                    name, f"the settings of pool {name!r} are at version {versions.get(name)}, not at {version}"
                )
        if self._report.is_whole:
            for name in versions.keys() - self._pools.keys():
                self._differs(name, f"pool {name!r} has settings, no event tells of them")

    def _differs(self, name: str, text: str) -> None:
        self._report.add("I10", text, id=name)
