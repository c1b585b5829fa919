"""The loop: what fits is placed at once, what does not waits without hurting anybody, nothing is given away twice."""

import asyncio
import collections
from typing import Any

import pytest
from tests.control.conftest import host, order, wish

from virtflow.control import schedule
from virtflow.election.alone import Alone
from virtflow.main import Service
from virtflow.model.errors import Busy, Conflict, InvalidRequest
from virtflow.model.instance import Instance
from virtflow.model.task import TaskState, WhenUnplaceable
from virtflow.model.views import TaskView, VmView


async def create(service: Service, *orders: object, together: bool = False) -> list[VmView]:
    return await service.house.vms.create(list(orders), together=together, actor="test")  # type: ignore[arg-type]


async def ended(service: Service, key: bytes, *, within_s: float = 5.0) -> TaskView:
    async with asyncio.timeout(within_s):
        while not (view := await service.house.tasks.get(key)).task.is_over:
            await asyncio.sleep(0.01)
    return view


async def until_placed(service: Service, name: str, *, within_s: float = 5.0) -> Instance:
    async with asyncio.timeout(within_s):
        while (found := (await service.house.vms.get(name)).instance).host is None:
            await asyncio.sleep(0.01)
    return found


async def register(service: Service, *hosts: object) -> None:
    await service.house.hosts.register(list(hosts), actor="test")  # type: ignore[arg-type]


async def test_what_fits_is_placed_and_durable_when_the_answer_comes(service: Service) -> None:
    await register(service, host("bm-1"))
    view = (await create(service, order("web-1")))[0]
    assert view.instance.host == "bm-1"
    assert view.instance.address == "10.0.0.1"
    task = (await service.house.tasks.get(view.task_id)).task
    assert task.state is TaskState.COMPLETED
    assert task.host == "bm-1"
    assert [step.state for step in task.history] == [TaskState.QUEUED, TaskState.PROCESSING, TaskState.COMPLETED]


async def test_a_request_is_not_poison_because_memory_was_short(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = schedule.decide, 2

    def greedy(*given: Any, **named: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            raise MemoryError
        return real(*given, **named)

    monkeypatch.setattr(schedule, "decide", greedy)
    await register(service, host("bm-1"))
    [view] = await create(service, order("web-1", when_unplaceable=WhenUnplaceable.WAIT))
    assert (await until_placed(service, "web-1")).host == "bm-1"
    assert (left, (await service.house.tasks.get(view.task_id)).task.state) == (0, TaskState.COMPLETED)


async def test_equal_requests_do_not_all_go_to_one_host_beyond_its_room(service: Service) -> None:
    """virtflow 19 [bug]: nothing decremented capacity, so N equal requests went to one node."""
    await register(service, *(host(f"bm-{n}", cores=4) for n in range(3)))
    views = await create(service, *(order() for _ in range(14)))
    placed = collections.Counter(view.instance.host for view in views)
    assert placed == {"bm-0": 4, "bm-1": 4, "bm-2": 4, None: 2}
    for row in [await service.house.hosts.get(f"bm-{n}") for n in range(3)]:
        assert row.used["cpu"] == 4000
        assert row.instances == 4


async def test_one_unplaceable_request_delays_nobody(service: Service) -> None:
    """virtflow 17 [bug]: the retry slept inside the only worker; Orchard 29 [bug]: one error aborted the round."""
    await register(service, host("bm-1"))
    await create(service, order("too-big", want=wish(cores=999)))
    async with asyncio.timeout(1):
        view = (await create(service, order("small")))[0]
    assert view.instance.host == "bm-1"


async def test_a_request_that_may_fail_is_tried_again_and_then_fails_with_the_reason(service: Service) -> None:
    await register(service, host("bm-1"))
    view = (await create(service, order(want=wish(cores=9), when_unplaceable=WhenUnplaceable.FAIL)))[0]
    over = await ended(service, view.task_id)
    assert over.task.state is TaskState.FAILED
    assert over.task.attempt == 4
    assert over.task.code
    assert over.explanation is not None
    assert over.explanation.hosts_considered == 1
    with pytest.raises(Exception, match="no VM"):
        await service.house.vms.get(view.instance.name)


async def test_no_host_at_all_is_not_an_immediate_failure(service: Service) -> None:
    """virtflow 18 [bug]: an empty cache failed the task at once, without retry and without a text."""
    view = (await service.house.vms.create([order()], together=False, actor="test", check_pool=False))[0]
    task = (await service.house.tasks.get(view.task_id)).task
    assert task.state is TaskState.QUEUED
    await register(service, host("bm-1"))
    assert (await until_placed(service, view.instance.name)).host == "bm-1"


async def test_a_waiting_vm_gets_the_room_that_another_gives_back(service: Service) -> None:
    await register(service, host("bm-1", cores=2))
    await create(service, order("first", want=wish(cores=2)))
    await create(service, order("second", want=wish(cores=2)))
    waiting = await service.house.vms.get("second")
    assert waiting.explanation is not None
    await service.house.vms.delete("first", expected_version=None, actor="test")
    assert (await until_placed(service, "second")).host == "bm-1"
    task = (await service.house.tasks.get(waiting.task_id)).task
    assert [step.state for step in task.history][-2:] == [TaskState.PROCESSING, TaskState.COMPLETED]


async def test_first_come_first_served_and_higher_priority_before(service: Service) -> None:
    await register(service, host("bm-1", cores=2))
    await create(service, order("holder", want=wish(cores=2)))
    for name, priority in (("old", 0), ("urgent", 9), ("young", 0)):
        await create(service, order(name, want=wish(cores=1), priority=priority))
    await service.house.vms.delete("holder", expected_version=None, actor="test")
    await until_placed(service, "urgent")
    await until_placed(service, "old")
    assert (await service.house.vms.get("young")).instance.host is None


async def test_all_or_nothing_is_placed_whole_or_waits_whole(service: Service) -> None:
    await register(service, host("bm-1", cores=3))
    views = await create(service, *(order(f"gang-{n}", want=wish(cores=1)) for n in range(4)), together=True)
    assert [view.instance.host for view in views] == [None] * 4
    assert (await service.house.hosts.get("bm-1")).used.get("cpu", 0) == 0
    await register(service, host("bm-2", cores=1))
    for n in range(4):
        await until_placed(service, f"gang-{n}")


async def test_a_gang_that_may_fail_is_tried_again_as_a_whole_and_fails_as_a_whole(service: Service) -> None:
    await register(service, host("bm-1", cores=3))
    orders = [order(want=wish(cores=1), when_unplaceable=WhenUnplaceable.FAIL) for _ in range(4)]
    views = await create(service, *orders, together=True)
    states = {(await ended(service, view.task_id)).task.state for view in views}
    assert states == {TaskState.FAILED}


async def test_a_deadline_ends_the_wait(service: Service) -> None:
    await register(service, host("bm-1"))
    view = (await create(service, order(want=wish(cores=99), deadline_s=1)))[0]
    over = await ended(service, view.task_id)
    assert over.task.state is TaskState.FAILED
    assert over.task.code == "deadline_exceeded"


async def test_a_cancelled_task_is_over_and_its_vm_never_was(service: Service) -> None:
    await register(service, host("bm-1"))
    view = (await create(service, order("never", want=wish(cores=99))))[0]
    cancelled = await service.house.tasks.cancel(view.task_id, expected_version=None, actor="test")
    again = await service.house.tasks.cancel(view.task_id, expected_version=None, actor="test")
    assert cancelled.task.state is again.task.state is TaskState.CANCELLED
    with pytest.raises(Exception, match="no VM never"):
        await service.house.vms.get("never")


async def test_what_is_over_cannot_be_cancelled(service: Service) -> None:
    await register(service, host("bm-1"))
    view = (await create(service, order()))[0]
    with pytest.raises(Conflict, match="completed cannot become cancelled"):
        await service.house.tasks.cancel(view.task_id, expected_version=None, actor="test")


async def test_deleting_gives_the_room_back_once(service: Service) -> None:
    await register(service, host("bm-1"))
    await create(service, order("web-1"))
    for _ in range(2):
        await service.house.vms.delete("web-1", expected_version=None, actor="test")
    row = await service.house.hosts.get("bm-1")
    assert (row.instances, dict(row.used).get("cpu", 0)) == (0, 0)
    with pytest.raises(Exception, match="no VM never-was"):
        await service.house.vms.delete("never-was", expected_version=None, actor="test")


async def test_a_name_in_use_fails_that_request_alone(service: Service) -> None:
    await register(service, host("bm-1"))
    await create(service, order("taken"))
    results = await asyncio.gather(
        create(service, order("taken")), create(service, order("free")), create(service, order()),
        return_exceptions=True,
    )  # fmt: skip
    assert isinstance(results[0], Conflict)
    assert all(isinstance(result, list) for result in results[1:])
    assert (await service.house.hosts.get("bm-1")).instances == 3


async def test_two_requests_for_one_name_at_once_make_one_vm(service: Service) -> None:
    await register(service, host("bm-1"))
    results = await asyncio.gather(*(create(service, order("twin")) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(result, list) for result in results) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 7


async def test_an_unknown_pool_or_strategy_is_refused_at_the_door(service: Service) -> None:
    await register(service, host("bm-1", pool="general"))
    with pytest.raises(InvalidRequest, match="no pool 'gpu'") as caught:
        await create(service, order(), order(want=wish(pool="gpu")))
    assert caught.value.error_code == "no_such_pool"
    assert "general" in caught.value.remedy
    with pytest.raises(InvalidRequest, match="bestfit"):
        await create(service, order(want=wish(pool="general", strategy="bestfit")))


async def test_more_than_can_be_written_down_is_turned_away(start: object) -> None:
    async with start(accept_queue_max="10") as service:  # type: ignore[operator]
        await register(service, host("bm-1"))
        with pytest.raises(Busy):
            await create(service, *(order() for _ in range(11)))


async def test_a_restart_loses_nothing_and_goes_on_waiting(start: object) -> None:
    async with start() as service:  # type: ignore[operator]
        await register(service, host("bm-1", cores=2))
        await create(service, order("placed", want=wish(cores=2)))
        await create(service, order("waits", want=wish(cores=1)))
    async with start() as service:  # type: ignore[operator]
        assert (await service.house.vms.get("placed")).instance.host == "bm-1"
        assert (await service.house.vms.get("waits")).instance.host is None
        await service.house.vms.delete("placed", expected_version=None, actor="test")
        assert (await until_placed(service, "waits")).host == "bm-1"


async def test_a_cordoned_host_takes_nothing_until_it_is_uncordoned(service: Service) -> None:
    await register(service, host("bm-1"))
    await service.house.hosts.cordon("bm-1", cordoned=True, expected_version=None, actor="test")
    await create(service, order("waits"))
    assert (await service.house.vms.get("waits")).instance.host is None
    await service.house.hosts.cordon("bm-1", cordoned=False, expected_version=None, actor="test")
    assert (await until_placed(service, "waits")).host == "bm-1"


async def test_many_clients_at_once_place_exactly_what_fits(service: Service) -> None:
    await register(service, *(host(f"bm-{n}", cores=16) for n in range(4)))
    views = await asyncio.gather(*(create(service, order()) for _ in range(100)))
    placed = [view[0] for view in views if view[0].instance.host is not None]
    assert len(placed) == 64
    assert len({view.instance.id for view in placed}) == 64


async def test_two_who_want_stillness_get_it_one_after_the_other(service: Service) -> None:
    """Half of the slots each, and both would wait for ever: a new leader and a reload did."""
    scheduler = service.scheduler
    still = 0

    async def be_still() -> None:
        nonlocal still
        async with scheduler.hold_still():
            still += 1
            await asyncio.sleep(0)
            still -= 1
            assert still == 0

    async with asyncio.timeout(10):
        async with scheduler.hold_still():
            waiting = [asyncio.create_task(be_still()) for _ in range(3)]
            await asyncio.sleep(0)
            given_up = asyncio.create_task(be_still())
            await asyncio.sleep(0)
            given_up.cancel()
        await asyncio.gather(*waiting)
        await register(service, host("bm-1"))
        assert (await create(service, order("a")))[0].instance.host == "bm-1"


async def test_a_term_that_is_over_takes_no_fence(service: Service) -> None:
    """Whoever leads by then would be deposed for nothing."""
    term = await Alone("scheduler").campaign()
    await term.resign()
    await service.scheduler.lead(term)
    async with service.store.transaction() as tx:
        await tx.check_fence(1)
