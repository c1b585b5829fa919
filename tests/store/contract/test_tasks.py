"""Tasks: acceptance, moves, lists, the counts."""

import asyncio

import pytest
from tests.store.builders import NOW_MS, add_hosts, add_instances, add_tasks, instance, intern, key, task

from virtflow.model.explanation import Explanation, NearestMiss, Refusals
from virtflow.model.names import derived_vm_name, id_from_text
from virtflow.model.task import Step, Task, TaskState, WhenUnplaceable
from virtflow.store.contract import Counts, IdsTaken, RetryTransaction, Store, TaskFilter, TaskMove
from virtflow.testing.builders import shape

QUEUED, PROCESSING, COMPLETED, FAILED, CANCELLED = TaskState
WHY = Explanation(
    code="no_host_fits",
    text="no host has 4 GPUs",
    hosts_considered=3,
    filters=(Refusals(filter="enough_room", hosts=3, alone=2),),
    nearest=NearestMiss(host="a", short={"gpu": 1}),
)


async def found(store: Store, number: int) -> Task:
    one = await store.task(key(number))
    assert one is not None
    return one


async def move(store: Store, *moves: TaskMove) -> frozenset[bytes]:
    async with store.transaction() as tx:
        return await tx.move_tasks(moves)


def a_move(number: int, was: TaskState, now: TaskState, **more: object) -> TaskMove:
    return TaskMove(**{"id": key(number), "was": was, "now": now, "at_ms": NOW_MS + 9, **more})  # type: ignore[arg-type]


async def test_a_task_comes_back_as_it_was_written(store: Store) -> None:
    [host_id] = await add_hosts(store, "a")
    written = Task(
        id=key(1),
        instance_id=key(2),
        given_name="web-1",
        state=FAILED,
        shape_id=await intern(store),
        when_unplaceable=WhenUnplaceable.WAIT,
        priority=-3,
        attempt=4,
        accepted_ms=NOW_MS,
        next_try_ms=NOW_MS + 1,
        deadline_ms=NOW_MS + 2,
        ended_ms=NOW_MS + 3,
        host_id=host_id,
        host="a",
        address="",
        gang=b"gang",
        code="no_host_fits",
        reason="no host fits",
        explanation=WHY,
        history=(Step(NOW_MS, QUEUED), Step(NOW_MS, PROCESSING, 'a "note"'), Step(NOW_MS + 3, FAILED)),
        version=5,
    )
    await add_tasks(store, [written])
    assert await store.task(key(1)) == written
    assert await store.task(key(2)) is None


async def test_a_client_may_choose_the_id(store: Store) -> None:
    theirs = id_from_text("order-17")
    await add_tasks(store, [task(1, id=theirs, instance_id=theirs)])
    one = await store.task(theirs)
    assert one is not None
    assert (one.id_text, one.instance_id, one.vm_name) == ("order-17", theirs, derived_vm_name(theirs))


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        (QUEUED, [(0, QUEUED)]),
        (PROCESSING, [(0, QUEUED), (0, PROCESSING)]),
        (COMPLETED, [(0, QUEUED), (0, PROCESSING), (4, COMPLETED)]),
        (FAILED, [(0, QUEUED), (0, PROCESSING), (4, FAILED)]),
        (CANCELLED, [(0, QUEUED), (4, CANCELLED)]),
    ],
)
async def test_a_task_without_history_has_the_shortest_legal_one(
    store: Store, state: TaskState, steps: list[tuple[int, TaskState]]
) -> None:
    await add_tasks(store, [task(1, state=state)])
    assert (await found(store, 1)).history == tuple(Step(NOW_MS + later, step) for later, step in steps)


async def test_exactly_the_clashing_ids_are_told(store: Store) -> None:
    await add_tasks(store, [task(1), task(2), task(3)])
    with pytest.raises(IdsTaken) as caught:
        await add_tasks(store, [task(4), task(2), task(3), task(5), task(5)])
    assert caught.value.ids == {key(2), key(3), key(5)}
    assert await store.task(key(4)) is None


async def test_one_id_from_many_sides_at_once(store: Store) -> None:
    async def claim() -> bool:
        try:
            await add_tasks(store, [task(1)])
        except (IdsTaken, RetryTransaction):
            return False
        return True

    assert sum(await asyncio.gather(*(claim() for _ in range(20)))) == 1


async def test_a_move_tells_its_story(store: Store) -> None:
    [host_id] = await add_hosts(store, "a")
    await add_tasks(store, [task(1, state=QUEUED)])
    steps = (Step(NOW_MS + 8, PROCESSING), Step(NOW_MS + 9, QUEUED, "again"))
    retry = a_move(
        1, QUEUED, QUEUED, attempt=2, next_try_ms=NOW_MS + 50, code="c", reason="r", explanation=WHY, steps=steps
    )
    assert await move(store, retry) == frozenset()
    waiting = await found(store, 1)
    assert (waiting.attempt, waiting.next_try_ms, waiting.code, waiting.reason) == (2, NOW_MS + 50, "c", "r")
    assert (waiting.explanation, waiting.ended_ms, waiting.version) == (WHY, None, 2)
    assert waiting.history == (Step(NOW_MS, QUEUED), *steps)
    await move(store, a_move(1, QUEUED, COMPLETED, host_id=host_id, steps=(Step(NOW_MS + 9, COMPLETED, "a"),)))
    done = await found(store, 1)
    assert (done.state, done.host, done.attempt, done.ended_ms, done.version) == (COMPLETED, "a", 2, NOW_MS + 9, 3)
    assert (done.code, done.reason, done.explanation) == (None, None, None)
    assert done.history == (Step(NOW_MS, QUEUED), *steps, Step(NOW_MS + 9, COMPLETED, "a"))


async def test_what_a_move_leaves_out_stays(store: Store) -> None:
    await add_tasks(store, [task(1, state=QUEUED, code="c", reason="r", explanation=WHY, attempt=3, next_try_ms=7)])
    await move(store, a_move(1, QUEUED, CANCELLED))
    after = await found(store, 1)
    assert (after.code, after.reason, after.explanation, after.attempt, after.next_try_ms) == ("c", "r", WHY, 3, 7)
    assert after.history == (Step(NOW_MS, QUEUED), Step(NOW_MS + 9, CANCELLED))


async def test_a_task_that_moved_meanwhile_is_told_and_left(store: Store) -> None:
    await add_tasks(store, [task(1, state=QUEUED), task(2, state=CANCELLED), task(3, state=QUEUED)])
    moves = [a_move(number, QUEUED, COMPLETED) for number in (1, 2, 3, 4)]
    assert await move(store, *moves) == {key(2), key(4)}
    assert [(await found(store, number)).version for number in (1, 2, 3)] == [2, 1, 2]
    assert await move(store) == frozenset()


async def test_one_move_of_many_wins(store: Store) -> None:
    await add_tasks(store, [task(1, state=QUEUED)])

    async def end(state: TaskState) -> bool:
        return not await move(store, a_move(1, QUEUED, state))

    assert sum(await asyncio.gather(*(end(state) for state in (COMPLETED, FAILED, CANCELLED) * 5))) == 1
    assert (await found(store, 1)).version == 2


async def test_two_moves_of_one_task_in_one_call_are_a_mistake(store: Store) -> None:
    with pytest.raises(ValueError, match="one move per task"):
        await move(store, a_move(1, QUEUED, PROCESSING), a_move(1, PROCESSING, COMPLETED))


async def test_a_history_is_bounded_and_still_ends(store: Store) -> None:
    await add_tasks(store, [task(1, state=QUEUED)])
    for _ in range(12):
        await move(store, a_move(1, QUEUED, QUEUED, steps=(Step(NOW_MS, QUEUED, "x" * 1_000),)))
    await move(store, a_move(1, QUEUED, FAILED, steps=(Step(NOW_MS, FAILED, "end"),)))
    history = (await found(store, 1)).history
    assert len(history) < 12
    assert history[-1] == Step(NOW_MS, FAILED, "end")


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        (TaskFilter(), [1, 2, 3, 4, 5, 6]),
        (TaskFilter(states=(QUEUED,)), [1, 6]),
        (TaskFilter(states=(COMPLETED,)), [3]),
        (TaskFilter(states=(FAILED, QUEUED, CANCELLED)), [1, 4, 5, 6]),
        (TaskFilter(states=(COMPLETED, PROCESSING)), [2, 3]),
        (TaskFilter(pool="gold"), [5, 6]),
        (TaskFilter(pool="gold", states=(QUEUED,)), [6]),
        (TaskFilter(pool="gold", states=(COMPLETED,)), []),
        (TaskFilter(pool="gold", states=(CANCELLED, COMPLETED)), [5]),
    ],
)
async def test_filters_of_the_list_are_combined(store: Store, where: TaskFilter, numbers: list[int]) -> None:
    plain, gold = await intern(store, shape()), await intern(store, shape(pool="gold"))
    states = [QUEUED, PROCESSING, COMPLETED, FAILED, CANCELLED, QUEUED]
    rows = [task(n, state=state, shape_id=gold if n > 4 else plain) for n, state in enumerate(states, 1)]
    await add_tasks(store, rows[::-1])
    assert [one.id for one in await store.tasks(where, limit=10)] == [key(number) for number in numbers]
    pages = [await store.tasks(where, after=key(number - 1), limit=1) for number in numbers]
    assert [page[0].id for page in pages] == [key(number) for number in numbers]


async def test_open_tasks_come_oldest_first(store: Store) -> None:
    rows = [task(n, state=QUEUED if n % 2 else PROCESSING, accepted_ms=NOW_MS - n // 2) for n in range(1_500)]
    over = [task(2_000 + n, state=state) for n, state in enumerate((COMPLETED, FAILED, CANCELLED))]
    await add_tasks(store, rows + over)
    chunks = [chunk async for chunk in store.open_tasks()]
    assert len(chunks) > 1
    seen = [(one.accepted_ms, one.id) for chunk in chunks for one in chunk]
    assert seen == sorted((one.accepted_ms, one.id) for one in rows)


async def test_a_scan_of_tasks_sees_all(store: Store) -> None:
    await add_tasks(store, [task(number) for number in range(1_100)])
    assert [one.id async for chunk in store.scan_tasks() for one in chunk] == [key(number) for number in range(1_100)]


async def test_the_counts_add_up(store: Store) -> None:
    nothing = dict.fromkeys(TaskState, 0)
    assert await store.counts() == Counts(hosts=0, instances=0, instances_placed=0, tasks=nothing)
    [host_id, _] = await add_hosts(store, "a", "b")
    await add_instances(store, [instance(1), instance(2, host_id=host_id), instance(3, host_id=host_id)])
    states = [QUEUED, QUEUED, PROCESSING, COMPLETED, COMPLETED, COMPLETED, FAILED, CANCELLED]
    await add_tasks(store, [task(n, state=state, accepted_ms=NOW_MS - n) for n, state in enumerate(states)])
    assert await store.counts() == Counts(
        hosts=2,
        instances=3,
        instances_placed=2,
        tasks={QUEUED: 2, PROCESSING: 1, COMPLETED: 3, FAILED: 1, CANCELLED: 1},
        oldest_waiting_ms=NOW_MS - 2,
    )
