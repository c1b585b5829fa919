"""The waiting room: one question per shape, in order, and alarms that ring once."""

from virtflow.control.waiting import Waiting, WaitingRoom
from virtflow.model.shape import Shape, shape
from virtflow.model.task import WhenUnplaceable


def waiting(
    number: int,
    *,
    want: Shape | None = None,
    priority: int = 0,
    deadline_ms: int | None = None,
    gang: bytes | None = None,
) -> Waiting:
    return Waiting(
        key=number.to_bytes(16, "big"),
        name=None,
        shape=want or shape({"cpu": 1000}),
        when_unplaceable=WhenUnplaceable.WAIT,
        priority=priority,
        accepted_ms=number,
        deadline_ms=deadline_ms,
        gang=gang,
    )


def test_nothing_is_tried_again_before_the_fleet_opened_up() -> None:
    room = WaitingRoom()
    room.add(waiting(1), tried_at=7)
    assert room.hopeful(7) == []
    assert len(room.hopeful(8)) == 1


def test_one_refusal_answers_for_all_of_a_shape() -> None:
    room = WaitingRoom()
    tasks = [waiting(number) for number in range(5)]
    for task in tasks:
        room.add(task)
    room.refused(tasks[0], opening=3)
    assert room.hopeful(3) == []


def test_priority_first_then_first_come_first_served() -> None:
    room = WaitingRoom()
    for task in (waiting(2), waiting(1), waiting(3, priority=5)):
        room.add(task)
    assert [task.accepted_ms for task in room.hopeful(1)] == [3, 1, 2]


def test_who_left_is_not_tried() -> None:
    room = WaitingRoom()
    tasks = [waiting(number) for number in range(100)]
    for task in tasks:
        room.add(task)
    room.remove([task.id for task in tasks[:99]])
    assert [task.accepted_ms for task in room.hopeful(1)] == [99]
    room.remove([tasks[99].id])
    assert (len(room), room.hopeful(1), room.next_alarm_ms()) == (0, [], None)


def test_an_alarm_rings_once_and_not_for_those_who_left() -> None:
    room = WaitingRoom()
    room.add(waiting(1, deadline_ms=50))
    room.add(waiting(2, deadline_ms=60))
    assert room.next_alarm_ms() == 50
    room.remove([(1).to_bytes(16, "big")])
    assert room.next_alarm_ms() == 60
    assert [task.accepted_ms for task in room.ringing(60)] == [2]
    assert room.ringing(1000) == []


def test_an_alarm_of_one_rings_for_all_who_share_its_fate() -> None:
    room = WaitingRoom()
    for number in (1, 2, 3):
        room.add(waiting(number, deadline_ms=50 * number, gang=b"gang"))
    room.add(waiting(4, deadline_ms=60))
    assert [task.accepted_ms for task in room.ringing(50)] == [1, 2, 3]


def test_who_waits_for_room_is_not_woken_by_a_next_try_that_is_over() -> None:
    """Held back by the ledger, such a task had one: the alarm rang, was set anew, and the loop never paused."""
    room = WaitingRoom()
    task = waiting(1)
    task.next_try_ms = 5
    room.add(task)
    assert room.next_alarm_ms() is None
