"""Who decided under which fence: I14."""

from virtflow.control.history.log import Commit
from virtflow.control.history.report import Report


class Leaders:
    """The fences of leaders and of their placements, in the order of the log."""

    def __init__(self, report: Report, *, newest: int) -> None:
        self._report = report
        self._newest = newest
        self._last = 0
        self.holders: dict[int, str] = {}

    def take(self, commit: Commit) -> None:
        for place, line in enumerate(commit.lines):
            if line.type == "task.completed":
                self._check(line.fence, commit.origin, commit.first + place)
            elif line.type == "leader.elected":
                self._check_new(line.fence, commit.first + place)
                self._check(line.fence, commit.origin, commit.first + place)

    def _check_new(self, fence: int, seq: int) -> None:
        if fence <= self._last:
            self._report.add("I14", f"event {seq} gives fence {fence} to a leader after {self._last}", seq=seq)

    def _check(self, fence: int, origin: str, seq: int) -> None:
        if fence == self._last and self.holders.get(fence) == origin:
            return
        if fence < self._last:
            self._report.add("I14", f"event {seq} bears fence {fence} after {self._last}", seq=seq)
        if fence > self._newest:
            self._report.add("I14", f"event {seq} bears fence {fence}, the newest is {self._newest}", seq=seq)
        holder = self.holders.setdefault(fence, origin)
        if holder != origin:
            self._report.add("I14", f"event {seq}: fence {fence} is held by {holder} and by {origin}", seq=seq)
        self._last = max(self._last, fence)
