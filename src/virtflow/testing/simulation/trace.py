"""What happened, step by step, as one number to compare and as lines to read; and what was seen how often."""

import collections
import hashlib
from collections.abc import Callable


class Trace:
    """`keep`: lines are kept for reading, too; without, only their hash."""

    def __init__(self, clock: Callable[[], float], *, keep: bool = False) -> None:
        self._clock = clock
        self._keep = keep
        #: nothing that comes now counts
        self.is_closed = False
        self._hash = hashlib.blake2b(digest_size=12)
        self.lines: list[str] = []
        #: what nobody should ever see
        self.unexpected: list[str] = []
        self.seen: collections.Counter[str] = collections.Counter()

    def say(self, who: str, what: str) -> None:
        if self.is_closed:
            return
        line = f"{self._clock():.6f} {who} {what}"
        self._hash.update(line.encode())
        if self._keep:
            self.lines.append(line)

    def sight(self, what: str) -> None:
        """Something that a good run sees sometimes."""
        if not self.is_closed:
            self.seen[what] += 1

    def fault(self, who: str, what: str) -> None:
        self.sight(f"fault: {what}")
        self.say(who, f"FAULT {what}")

    def digest(self, schedule: int) -> str:
        whole = self._hash.copy()
        whole.update(schedule.to_bytes(8, "big"))
        return whole.hexdigest()
