"""Room taken and given back along the log: I1, and the sums for I2."""

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from virtflow.control.history.log import Commit, Line
from virtflow.control.history.report import Report

Amounts = dict[str, int]

_amounts = msgspec.json.Decoder(Amounts).decode
#: most placements repeat a shape, so the few texts of deltas are read once
_TEXTS_MAX = 10_000


class HostData(msgspec.Struct, gc=False):
    """What events of hosts carry."""

    allocatable: Amounts = {}
    cordoned: bool = False


_host_data = msgspec.json.Decoder(HostData).decode


def host_data(line: Line) -> HostData:
    return _host_data(line.data) if bytes(line.data) else HostData()


class Deltas:
    """The deltas of events, read once for each text."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[tuple[str, int], ...]] = {}

    def of(self, line: Line) -> tuple[tuple[str, int], ...]:
        text = bytes(line.delta)
        if not text or text == b"null":
            return ()
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _TEXTS_MAX:
                self._known.clear()
            known = self._known[text] = tuple(_amounts(text).items())
        return known


class Sums:
    """What the kept events of each host add up to, until its name changes hands: how a cut log knows where it began."""

    def __init__(self) -> None:
        self._deltas = Deltas()
        self.taken: dict[str, Amounts] = defaultdict(lambda: defaultdict(int))
        #: hosts of which an event tells what they have
        self.told: set[str] = set()
        #: hosts that went, or came, within the kept events
        self.moved: set[str] = set()

    def take(self, commit: Commit) -> None:
        for line in commit.lines:
            if line.kind == "host":
                self.told.add(line.id)
                if line.type in ("host.registered", "host.deleted"):
                    self.moved.add(line.id)
            elif line.host not in self.moved:
                for name, amount in self._deltas.of(line):
                    self.taken[line.host][name] += amount

    def beginning(self, used_now: Mapping[str, Mapping[str, int]]) -> dict[str, Amounts]:
        """What was taken before the oldest event: what is taken now, without what came since."""
        names = {*self.taken, *used_now} - {name for name in self.moved if name not in self.taken}
        return {
            name: {
                dimension: ({} if name in self.moved else used_now.get(name, {})).get(dimension, 0)
                - self.taken[name][dimension]
                for dimension in {*self.taken[name], *({} if name in self.moved else used_now.get(name, {}))}
            }
            for name in names
        }


class Rooms:
    """What is taken from each host after each event, beside what it may give at that moment."""

    def __init__(
        self, report: Report, *, used: dict[str, Amounts] | None = None, limits: dict[str, Amounts] | None = None
    ) -> None:
        self._report = report
        self._deltas = Deltas()
        self.used: dict[str, Amounts] = used or {}
        #: a host that is not in here is not known to be there
        self.limits: dict[str, Amounts] = limits or {}

    def take(self, commit: Commit) -> None:
        for place, line in enumerate(commit.lines):
            if line.kind == "host":
                self._move_host(line)
            elif line.host:
                self._move_room(line, commit.first + place)

    def _move_room(self, line: Line, seq: int) -> None:
        used = self.used.get(line.host)
        if used is None:
            used = self.used[line.host] = {}
        limits = self.limits.get(line.host)
        for name, amount in self._deltas.of(line):
            now = used[name] = used.get(name, 0) + amount
            if now < 0:
                self._report.add("I1", f"event {seq} leaves {line.host} with {now} {name} taken", seq=seq, id=line.host)
            elif limits is None:
                if self._report.is_whole and amount > 0:
                    self._report.add("I19", f"event {seq} takes room of {line.host}, which is not there", seq=seq)
                    return
            elif amount > 0 and now > limits.get(name, 0):
                told = f"event {seq} takes {name} of {line.host} to {now}, it has {limits.get(name, 0)}"
                self._report.add("I1", told, seq=seq, id=line.host)

    def _move_host(self, line: Line) -> None:
        if line.type == "host.deleted":
            self.limits.pop(line.id, None)
            left = {name: amount for name, amount in self.used.pop(line.id, {}).items() if amount}
            if left:
                self._report.add("I19", f"host {line.id} was deleted while {left} was taken", id=line.id)
        else:
            self.limits[line.id] = host_data(line).allocatable
