"""Tasks without a host yet, by shape: when one of a shape does not fit, none of that shape does."""

import bisect
import heapq
import itertools
from collections.abc import Iterable

from virtflow.model.limits import BATCH_LIMIT
from virtflow.model.shape import Shape
from virtflow.model.task import Step, Task, WhenUnplaceable
from virtflow.model.webhook import Callback

#: how many of one shape are tried in a round when the fleet opened up
TRIES_PER_SHAPE_MAX = 256


class Waiting:
    """One task on its way to a host. Mutable, and alive only while the task is open."""

    __slots__ = (
        "accepted_ms",
        "attempt",
        "callback",
        "deadline_ms",
        "gang",
        "history",
        "id",
        "name",
        "next_try_ms",
        "priority",
        "recorded",
        "shape",
        "trace",
        "version",
        "when_unplaceable",
    )

    def __init__(
        self,
        *,
        key: bytes,
        name: str | None,
        shape: Shape,
        when_unplaceable: WhenUnplaceable,
        priority: int,
        accepted_ms: int,
        deadline_ms: int | None,
        gang: bytes | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.id = key
        self.name = name
        self.shape = shape
        self.when_unplaceable = when_unplaceable
        self.priority = priority
        self.accepted_ms = accepted_ms
        self.deadline_ms = deadline_ms
        self.gang = gang
        #: who wants to hear of its end; written down with it
        self.callback = callback
        self.attempt = 0
        self.next_try_ms = 0
        self.version = 0
        #: its rows are in the database
        self.recorded = False
        #: the `traceparent` of the request behind it, where traces are made
        self.trace = ""
        self.history: tuple[Step, ...] = ()

    @classmethod
    def from_task(cls, task: Task, shape: Shape, *, name: str | None) -> "Waiting":
        waiting = cls(
            key=task.id,
            name=name,
            shape=shape,
            when_unplaceable=task.when_unplaceable,
            priority=task.priority,
            accepted_ms=task.accepted_ms,
            deadline_ms=task.deadline_ms,
            gang=task.gang,
        )
        waiting.attempt = task.attempt
        waiting.next_try_ms = task.next_try_ms
        waiting.version = task.version
        waiting.recorded = True
        waiting.trace = task.trace
        return waiting

    @property
    def order(self) -> tuple[int, int, bytes]:
        """Higher priority first, then first come, first served."""
        return (-self.priority, self.accepted_ms, self.id)


class _Queue:
    """The waiting tasks of one shape (or one gang, which is tried as a whole)."""

    __slots__ = ("members", "order", "tried_at")

    def __init__(self) -> None:
        self.members: dict[bytes, Waiting] = {}
        #: sorted; may hold some that left, which are swept out now and then
        self.order: list[tuple[int, int, bytes]] = []
        #: the state of the fleet in which one of them was last refused
        self.tried_at = -1

    def add(self, waiting: Waiting) -> None:
        self.members[waiting.id] = waiting
        bisect.insort(self.order, waiting.order)

    def first(self, limit: int) -> list[Waiting]:
        if len(self.order) > 2 * len(self.members) + 16:
            self.order = [key for key in self.order if key[2] in self.members]
        living = (self.members[key[2]] for key in self.order if key[2] in self.members)
        return list(itertools.islice(living, limit))


class WaitingRoom:
    """All recorded tasks that are not over."""

    def __init__(self) -> None:
        self._queues: dict[Shape | bytes, _Queue] = {}
        self._by_id: dict[bytes, Waiting] = {}
        self._due: list[tuple[int, bytes]] = []

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, key: object) -> bool:
        return key in self._by_id

    def get(self, key: bytes) -> Waiting | None:
        return self._by_id.get(key)

    def add(self, waiting: Waiting, *, tried_at: int = -1) -> None:
        """`tried_at`: the opening at which it was refused just now, so that it is not tried again for nothing."""
        self._by_id[waiting.id] = waiting
        queue = self._queues.setdefault(waiting.gang or waiting.shape, _Queue())
        if not queue.members:
            queue.tried_at = tried_at
        queue.add(waiting)
        self.set_alarm(waiting)

    def set_alarm(self, waiting: Waiting, *, at_ms: int | None = None) -> None:
        """At its next try or deadline, whichever comes first, or at a given time."""
        # who waits for room has no time for the next try: one that is over would ring again as soon as it has rung
        may_fail = waiting.when_unplaceable is WhenUnplaceable.FAIL
        times = [
            at for at in (waiting.next_try_ms or None if may_fail else None, waiting.deadline_ms) if at is not None
        ]
        if at_ms is not None:
            times = [at_ms]
        if times:
            heapq.heappush(self._due, (min(times), waiting.id))

    def remove(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            waiting = self._by_id.pop(key, None)
            if waiting is None:
                continue
            queue = self._queues[waiting.gang or waiting.shape]
            del queue.members[key]
            if not queue.members:
                del self._queues[waiting.gang or waiting.shape]

    def next_alarm_ms(self) -> int | None:
        while self._due and self._due[0][1] not in self._by_id:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def ringing(self, now_ms: int) -> list[Waiting]:
        """Those whose next try or deadline has come, and whoever shares their fate; each alarm rings once."""
        found: dict[bytes, Waiting] = {}
        while self._due and self._due[0][0] <= now_ms:
            _, key = heapq.heappop(self._due)
            waiting = self._by_id.get(key)
            if waiting is None:
                continue
            found[key] = waiting
            if waiting.gang is not None:
                found.update(self._queues[waiting.gang].members)
        return list(found.values())

    def hopeful(self, opening: int) -> list[Waiting]:
        """Those worth a try now: the fleet opened up since their shape was last refused. A few of each shape: when
        all of them find room, the next round brings the next few."""
        chosen: list[Waiting] = []
        for key, queue in self._queues.items():
            if queue.tried_at != opening:
                chosen += queue.first(len(queue.members) if isinstance(key, bytes) else TRIES_PER_SHAPE_MAX)
            if len(chosen) >= BATCH_LIMIT:
                break
        return chosen

    def refused(self, waiting: Waiting, *, opening: int) -> None:
        """Remember that this shape (or gang) found nothing in this state of the fleet."""
        queue = self._queues.get(waiting.gang or waiting.shape)
        if queue is not None:
            queue.tried_at = opening

    def was_refused(self, key: bytes) -> bool:
        """Did one like it find no host since it came?"""
        waiting = self._by_id[key]
        return self._queues[waiting.gang or waiting.shape].tried_at >= 0

    def clear(self) -> None:
        self._queues.clear()
        self._by_id.clear()
        self._due.clear()

    def shapes(self) -> dict[Shape, int]:
        """How many wait, by shape: for metrics."""
        counts: dict[Shape, int] = {}
        for waiting in self._by_id.values():
            counts[waiting.shape] = counts.get(waiting.shape, 0) + 1
        return counts
