"""The queue of one receiver: order for each thing, retries over days, and a breaker. Time is what we say it is."""

import itertools

import msgspec
import pytest

from virtflow.control.breaker import FAILURES_MAX, WAIT_S_MAX, Breaker
from virtflow.control.line import AGE_S_MAX, RETRY_WAITS_S, Line
from virtflow.events import Reply
from virtflow.model.limits import WEBHOOK_LANES_MAX, WEBHOOK_QUEUE_MAX
from virtflow.model.webhook import Delivery, DeliveryState

NOW_MS = 1_700_000_000_000
OK, ERROR, GONE = Reply(status=204), Reply(code="http_error", status=500, text="500"), Reply(code="gone", status=410)
BUSY = Reply(code="http_error", status=429, retry_after_s=30.0)


def line(*deliveries: Delivery, chance: float = 0.5) -> Line:
    made = Line("ops", breaker=Breaker(chance=lambda: chance), chance=lambda: chance)
    made.add(deliveries)
    return made


def delivery(number: int, subject: str = "", **more: object) -> Delivery:
    return Delivery(
        id=number.to_bytes(16),
        line="ops",
        seq=number,
        type="task.failed",
        subject=subject or f"task/{number}",
        message_id=f"m-{number}",
        body=b"{}",
        since_ms=NOW_MS,
        **more,  # type: ignore[arg-type]
    )


def take_all(queue: Line, now_ms: int = NOW_MS) -> list[int]:
    taken = []
    while (found := queue.take(now_ms)) is not None:
        taken.append(found.seq)
    return taken


def test_messages_about_one_thing_go_one_after_the_other_and_those_about_others_do_not_wait() -> None:
    first, second, other = delivery(1, "host/a"), delivery(2, "host/a"), delivery(3, "host/b")
    queue = line(first, second, other)
    assert take_all(queue) == [1, 3]
    assert queue.settle(first, OK, NOW_MS).state is DeliveryState.DELIVERED
    assert take_all(queue) == [2]
    assert len(queue) == 2


def test_only_so_many_are_under_way() -> None:
    queue = line(*(delivery(number) for number in range(20)))
    assert len(take_all(queue)) == WEBHOOK_LANES_MAX
    assert queue.next_ms() is None
    assert queue.room == WEBHOOK_QUEUE_MAX - 20


def test_one_that_failed_holds_up_what_is_about_the_same_thing_and_nothing_else() -> None:
    bad, behind, other = delivery(1, "host/a"), delivery(2, "host/a"), delivery(3, "host/b")
    queue = line(bad, behind, other)
    take_all(queue)
    again = queue.settle(bad, ERROR, NOW_MS)
    assert (again.state, again.tries, again.next_try_ms) == (DeliveryState.WAITING, 1, NOW_MS + 5000)
    queue.settle(other, OK, NOW_MS)
    assert take_all(queue) == []
    assert queue.next_ms() == again.next_try_ms
    assert take_all(queue, again.next_try_ms) == [1]
    queue.settle(again, OK, again.next_try_ms)
    assert take_all(queue, again.next_try_ms) == [2]


def test_a_message_is_tried_over_three_days_and_then_is_dead() -> None:
    """The receiver takes all others meanwhile, so that its breaker stays closed."""
    poison, now_ms, tried_at = delivery(1, "host/a"), NOW_MS, []
    queue, numbers = line(poison), itertools.count(2)
    while poison.state is DeliveryState.WAITING:
        now_ms = max(now_ms, poison.next_try_ms)
        assert queue.take(now_ms) is not None
        tried_at.append(now_ms)
        poison = queue.settle(poison, ERROR, now_ms)
        fine = delivery(next(numbers))
        queue.add([fine])
        assert queue.take(now_ms) == fine
        queue.settle(fine, OK, now_ms)
        if poison.state is DeliveryState.WAITING:
            poison = msgspec.structs.replace(poison, next_try_ms=now_ms + RETRY_WAITS_S[poison.tries - 1] * 1000)
            queue = line(poison)
    waits_s = [(after - before) / 1000 for before, after in itertools.pairwise(tried_at)]
    assert waits_s == list(RETRY_WAITS_S)
    assert 3 * 86_400 < sum(waits_s) < 4 * 86_400
    assert poison.state is DeliveryState.DEAD
    assert len(queue) == 0


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_waits_are_spread_by_chance(chance: float) -> None:
    one = delivery(1)
    queue = line(one, chance=chance)
    queue.take(NOW_MS)
    assert queue.settle(one, ERROR, NOW_MS).next_try_ms == NOW_MS + round(5000 * (0.8 + 0.4 * chance))


def test_who_asks_to_wait_is_left_alone_and_has_not_failed() -> None:
    one, other = delivery(1), delivery(2)
    queue = line(one, other)
    queue.take(NOW_MS)
    again = queue.settle(one, BUSY, NOW_MS)
    assert (again.tries, queue.breaker.failures) == (0, 0)
    assert take_all(queue, NOW_MS + 30_000) == []  # never before, and by chance a little later
    assert sorted(take_all(queue, NOW_MS + 30_500)) == [1, 2]
    late_ms = NOW_MS + AGE_S_MAX * 1000
    assert queue.settle(again, BUSY, late_ms).tries == 1  # nobody is waited for for ever


def broken(queue: Line, *, now_ms: int = NOW_MS) -> None:
    for number in range(1000, 1000 + FAILURES_MAX):
        one = delivery(number)
        queue.add([one])
        queue.take(now_ms)
        queue.settle(one, ERROR, now_ms)


def test_after_failures_in_a_row_one_at_a_time_finds_out() -> None:
    queue = line()
    broken(queue)
    fresh = delivery(1)
    queue.add([fresh, delivery(2)])
    assert queue.breaker.is_open
    assert take_all(queue) == []
    assert queue.next_ms() == NOW_MS + 1000
    assert take_all(queue, NOW_MS + 1000) == [1]  # the one that failed the least, and no second one beside it
    queue.settle(fresh, ERROR, NOW_MS + 1000)
    assert queue.next_ms() == NOW_MS + 3000
    assert take_all(queue, NOW_MS + 3000) == [2]


def test_waits_of_the_breaker_grow_to_their_bound() -> None:
    breaker, now_ms, waits = Breaker(chance=lambda: 0.5), NOW_MS, []
    for _ in range(40):
        breaker.failed(now_ms)
        waits.append(max(0, breaker.retry_ms - now_ms) / 1000)
        now_ms = max(now_ms, breaker.retry_ms)
    assert waits[:9] == [0, 0, 0, 0, 1, 2, 4, 8, 16]
    assert waits[-1] == WAIT_S_MAX
    assert breaker.failing_s(now_ms) == (now_ms - NOW_MS) / 1000


def test_finding_out_uses_up_no_tries() -> None:
    """A receiver with one message a day would lose it within the hour."""
    one, now_ms = delivery(1), NOW_MS
    queue = line(one)
    while now_ms < NOW_MS + 2 * 86_400_000:
        assert queue.take(now_ms) is not None
        one = queue.settle(one, ERROR, now_ms)
        assert one.state is DeliveryState.WAITING
        now_ms = queue.next_ms() or now_ms
    assert one.tries <= len(RETRY_WAITS_S)


def test_when_the_receiver_is_back_everything_is_due_at_once() -> None:
    queue = line()
    broken(queue)
    fresh = delivery(1)
    queue.add([fresh])
    queue.take(NOW_MS + 1000)
    queue.settle(fresh, OK, NOW_MS + 1000)
    assert not queue.breaker.is_open
    assert len(take_all(queue, NOW_MS + 1000)) == FAILURES_MAX


def test_one_that_says_it_is_gone_gets_a_dead_message_and_no_other() -> None:
    one, other = delivery(1), delivery(2)
    queue = line(one, other)
    queue.take(NOW_MS)
    assert queue.settle(one, GONE, NOW_MS).state is DeliveryState.DEAD
    queue.is_off = True
    assert (take_all(queue), queue.next_ms(), queue.room) == ([], None, 0)


def test_rows_that_were_read_too_early_are_not_sent_again_but_those_sent_again_are() -> None:
    one = delivery(1)
    queue = line(one, one)
    assert len(queue) == 1
    queue.take(NOW_MS)
    queue.settle(one, OK, NOW_MS)
    queue.add([one])
    assert len(queue) == 0
    queue.add([msgspec.structs.replace(one, since_ms=NOW_MS + 1)])
    assert take_all(queue) == [1]
