"""The queue of one receiver: what it must still be told, in order for each thing, and what a try's end means for it."""

import collections
import heapq
from collections.abc import Callable, Iterable

import msgspec

from virtflow.control.breaker import Breaker
from virtflow.events import Reply
from virtflow.model.limits import WEBHOOK_LANES_MAX, WEBHOOK_QUEUE_MAX
from virtflow.model.webhook import Delivery, DeliveryState

#: from one failed try of a message to the next; after the last of them it is given up, three days after the first
RETRY_WAITS_S = (5, 30, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
#: a receiver that asks to wait, and asks again and again, is not waited for longer than that
AGE_S_MAX = 4 * 86_400
GONE = "gone"
#: rows that are read while a result is being written may still say that it waits
SETTLED_REMEMBERED = 4 * WEBHOOK_QUEUE_MAX


class Line:
    """Plain memory: it is handed messages, says which is next, and is told how each try ended."""

    def __init__(self, name: str, *, breaker: Breaker, chance: Callable[[], float]) -> None:
        self.name = name
        self.breaker = breaker
        self._chance = chance
        #: by what they are about, in order; only the first of each may be sent
        self._queues: dict[str, collections.deque[Delivery]] = {}
        self._waiting: set[bytes] = set()
        #: subject -> whether the message under way was due, and not only the one to find out with
        self._under_way: dict[str, bool] = {}
        #: what is over -> since when it had been tried; sent again, it has another beginning
        self._over: dict[bytes, int] = {}
        #: (when it is due, id, subject) of those that are first; may hold some that are no longer
        self._due: list[tuple[int, bytes, str]] = []
        #: the receiver said that it is gone, or somebody that it is off: nothing is sent any more
        self.is_off = False

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: object) -> bool:
        return key in self._waiting

    @property
    def room(self) -> int:
        return 0 if self.is_off else WEBHOOK_QUEUE_MAX - len(self._waiting)

    def add(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            if delivery.id in self._waiting or self._over.get(delivery.id) == delivery.since_ms:
                continue
            self._waiting.add(delivery.id)
            queue = self._queues.setdefault(delivery.subject, collections.deque())
            queue.append(delivery)
            if len(queue) == 1:
                self._ring(delivery)

    def take(self, now_ms: int) -> Delivery | None:
        """The next to be sent; None when nothing may be sent now. What is taken is under way until it is settled."""
        if self.is_off or len(self._under_way) >= WEBHOOK_LANES_MAX:
            return None
        if not self.breaker.lets_pass(now_ms, under_way=len(self._under_way)):
            return None
        found = self._likeliest() if self.breaker.is_open else self._first_due(now_ms)
        if found is not None:
            self._under_way[found.subject] = found.next_try_ms <= now_ms
        return found

    def next_ms(self) -> int | None:
        """When `take` may have something that it has not now, if nobody comes before; None: not by waiting."""
        if self.is_off or len(self._under_way) >= WEBHOOK_LANES_MAX or len(self._under_way) == len(self._queues):
            return None
        if self.breaker.is_open:
            return None if self._under_way else self.breaker.retry_ms
        self._sweep()
        return max(self._due[0][0], self.breaker.retry_ms) if self._due else None

    def settle(self, delivery: Delivery, reply: Reply, now_ms: int) -> Delivery:
        """How the try of it ended: the message as it is from now on."""
        was_due = self._under_way.pop(delivery.subject)
        settled = self._judge(delivery, reply, now_ms, was_due=was_due)
        if settled.state is DeliveryState.WAITING:
            self._queues[delivery.subject][0] = settled
            self._ring(settled)
        else:
            self._remove_first(delivery)
        if reply.is_delivered and self.breaker.succeeded():
            self.hasten(now_ms)
        return settled

    def hasten(self, now_ms: int) -> None:
        """The receiver is back: nobody waits for a time that was chosen while it was away."""
        for subject, queue in self._queues.items():
            self._queues[subject] = collections.deque(msgspec.structs.replace(one, next_try_ms=now_ms) for one in queue)
            self._ring(self._queues[subject][0])

    def _judge(self, delivery: Delivery, reply: Reply, now_ms: int, *, was_due: bool) -> Delivery:
        tried = msgspec.structs.replace(
            delivery, status=reply.status, code=reply.code, duration_ms=reply.duration_ms, ended_ms=now_ms
        )
        if reply.is_delivered:
            return msgspec.structs.replace(tried, state=DeliveryState.DELIVERED)
        if reply.code == GONE:
            return msgspec.structs.replace(tried, state=DeliveryState.DEAD, tries=delivery.tries + 1)
        if reply.retry_after_s is not None and now_ms - delivery.since_ms < AGE_S_MAX * 1000:
            # busy, not broken: neither the message nor the receiver has failed
            until_ms = now_ms + round((reply.retry_after_s + self._chance()) * 1000)
            self.breaker.pause(until_ms)
            return msgspec.structs.replace(tried, next_try_ms=until_ms, ended_ms=None)
        self.breaker.failed(now_ms)
        if not was_due:  # it was sent before its time, to find out: that must not use up its tries
            return msgspec.structs.replace(tried, ended_ms=None)
        failed = msgspec.structs.replace(tried, tries=delivery.tries + 1)
        if delivery.tries >= len(RETRY_WAITS_S) or now_ms - delivery.since_ms >= AGE_S_MAX * 1000:
            return msgspec.structs.replace(failed, state=DeliveryState.DEAD)
        wait_s = RETRY_WAITS_S[delivery.tries] * (0.8 + 0.4 * self._chance())
        return msgspec.structs.replace(failed, next_try_ms=now_ms + round(wait_s * 1000), ended_ms=None)

    def _remove_first(self, delivery: Delivery) -> None:
        self._waiting.discard(delivery.id)
        self._over[delivery.id] = delivery.since_ms
        if len(self._over) > SETTLED_REMEMBERED:
            del self._over[next(iter(self._over))]
        queue = self._queues[delivery.subject]
        queue.popleft()
        if queue:
            self._ring(queue[0])
        else:
            del self._queues[delivery.subject]

    # ── which is next ─────────────────────────────────────────────────────────────────────────────

    def _first_due(self, now_ms: int) -> Delivery | None:
        self._sweep()
        if not self._due or self._due[0][0] > now_ms:
            return None
        _, _, subject = heapq.heappop(self._due)
        return self._queues[subject][0]

    def _likeliest(self) -> Delivery | None:
        """To find out whether the receiver is back: the one that has failed the least, due or not."""
        firsts = [queue[0] for subject, queue in self._queues.items() if subject not in self._under_way]
        return min(firsts, key=lambda one: (one.tries, one.id), default=None)

    def _sweep(self) -> None:
        """Throws away what rings for nobody: it is under way, or was settled, or has another time now."""
        while self._due and not self._is_first(*self._due[0]):
            heapq.heappop(self._due)

    def _is_first(self, due_ms: int, key: bytes, subject: str) -> bool:
        queue = self._queues.get(subject)
        if queue is None or subject in self._under_way:
            return False
        return queue[0].id == key and queue[0].next_try_ms == due_ms

    def _ring(self, delivery: Delivery) -> None:
        heapq.heappush(self._due, (delivery.next_try_ms, delivery.id, delivery.subject))
