"""When an office may be taken, and how long it may be kept: by one's own clock, which nobody else reads.

Who holds the office counts from before he asked to keep it, and stops early. Who wants it counts from after he first
saw the newest beat, and waits for the whole lease. Whatever the delays in between, the first is over before the second.
"""

from virtflow.election.ballot import Vote

#: the holder beats so often in each lease
BEATS = 3
#: the part of the lease after which the holder stops by himself: clocks may differ in speed by the rest
KEPT = 0.8
#: a sign that the holder is dead must be seen at two looks so far apart
LOOKS_APART_S = 0.2


class Judge:
    """One candidate's opinion of one holder."""

    def __init__(self, me: str, lease_s: float) -> None:
        self._me = me
        self._lease_s = lease_s
        self._seen: tuple[str, str | int] | None = None
        self._since_s = 0.0
        self._gone_since_s: float | None = None

    def is_free(self, vote: Vote | None, now_s: float) -> bool:
        """`now_s`: when the answer had come."""
        if vote is None:  # somebody removed the record: the holder that we know may not know that
            return self._seen is None or self._has_waited(now_s)
        # what bears our name is a term of ours that is over: we would not ask otherwise
        if vote.holder in ("", self._me):
            return True
        if (vote.holder, vote.mark) != self._seen:
            self._seen, self._since_s, self._gone_since_s = (vote.holder, vote.mark), now_s, None
        return self._is_gone(vote, now_s) or self._has_waited(now_s)

    def _has_waited(self, now_s: float) -> bool:
        return now_s - self._since_s >= self._lease_s

    def _is_gone(self, vote: Vote, now_s: float) -> bool:
        if vote.is_attended:
            self._gone_since_s = None
        elif self._gone_since_s is None:
            self._gone_since_s = now_s
        return self._gone_since_s is not None and now_s - self._gone_since_s >= LOOKS_APART_S


def kept_until_s(asked_s: float, lease_s: float) -> float:
    """`asked_s`: before the question was sent to which the answer was yes."""
    return asked_s + KEPT * lease_s


def next_beat_s(asked_s: float, lease_s: float) -> float:
    return asked_s + lease_s / BEATS
