"""What the database refuses is taken out of the round, the rest becomes true, and nothing is left half done."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.control.conftest import config, host, order, wish
from tests.control.test_schedule import create, register, until_placed

from virtflow.control.clock import SystemClock
from virtflow.control.commit import Committer, Round
from virtflow.control.fsck import fsck
from virtflow.control.mirror import Mirror
from virtflow.control.orders import VmOrder
from virtflow.control.waiting import Waiting
from virtflow.main import Service, build
from virtflow.model.errors import Conflict, Fenced, OutcomeUnknown, Unavailable
from virtflow.model.plan import Placement, Request
from virtflow.model.task import TaskState, WhenUnplaceable
from virtflow.store.contract import EventFilter, RoomChange, Store, Transaction
from virtflow.store.open import open_store
from virtflow.testing.failpoints import FailingStore, Failpoints


async def take_behind_the_mirror(service: Service, name: str, cores: int) -> None:
    """What a second scheduler would do: the room goes without this process knowing."""
    row = await service.house.hosts.get(name)
    async with service.store.transaction() as tx:
        assert not await tx.take_room([RoomChange(row.id, {"cpu": cores * 1000}, 1)])


async def test_the_guard_in_the_write_stops_what_the_mirror_would_allow(service: Service) -> None:
    await register(service, host("bm-1", cores=4), host("bm-2", cores=4))
    await take_behind_the_mirror(service, "bm-1", 4)
    views = await create(service, *(order(f"vm-{n}") for n in range(6)))
    assert {view.instance.host for view in views} == {"bm-2", None}
    assert (await service.house.hosts.get("bm-1")).used["cpu"] == 4000
    async with asyncio.timeout(5):  # with fresh data one of the others finds the room that is left
        while (await service.house.hosts.get("bm-2")).used["cpu"] < 4000:
            await asyncio.sleep(0.01)
    assert (await service.house.hosts.get("bm-1")).used["cpu"] == 4000
    waiting = [n for n in range(6) if (await service.house.vms.get(f"vm-{n}")).instance.host is None]
    assert len(waiting) == 2


async def test_a_gang_is_held_back_whole_when_one_of_its_hosts_refuses(service: Service) -> None:
    await register(service, host("bm-1", cores=2), host("bm-2", cores=2))
    await take_behind_the_mirror(service, "bm-1", 2)
    views = await create(service, *(order(f"gang-{n}") for n in range(4)), together=True)
    assert [view.instance.host for view in views] == [None] * 4
    assert (await service.house.hosts.get("bm-2")).used.get("cpu", 0) == 0


async def test_a_waiting_vm_that_was_refused_by_the_ledger_is_tried_again(service: Service) -> None:
    """It counted as being written for ever, and this leader never looked at it again."""
    await register(service, host("bm-1", cores=2))
    await create(service, order("holder", want=wish(cores=2)))
    await create(service, order("waits", want=wish(cores=2)))
    async with service.scheduler.hold_still():
        await service.house.vms.delete("holder", expected_version=None, actor="test")
        await take_behind_the_mirror(service, "bm-1", 2)
    async with asyncio.timeout(5):
        while not _shows_the_ledger(service):  # read anew after the refusal
            await asyncio.sleep(0.01)
    await register(service, host("bm-2", cores=2))
    assert (await until_placed(service, "waits")).host == "bm-2"


def _shows_the_ledger(service: Service) -> bool:
    room = service.scheduler._mirror.fleet.room("bm-1")
    assert room is not None
    return {name: amount for name, amount in room[0].items() if amount} == {"cpu": 2000}


async def test_a_stale_leader_writes_nothing_and_what_it_took_in_is_written_under_the_next_fence(
    service: Service,
) -> None:
    await register(service, host("bm-1"))
    async with service.store.transaction() as tx:
        stolen = await tx.take_fence()
    await create(service, order("late"))
    await until_placed(service, "late")
    events = await service.store.events(EventFilter(types=("task.",)), after=0, limit=10)
    assert min(event.fence for event in events if event.fence) > stolen
    assert (await service.house.health.check()).ok


async def test_a_leader_deposed_after_it_turned_somebody_away_keeps_no_room_for_him(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was taken out of its round was forgotten with the round."""
    await register(service, host("bm-1"))
    await create(service, order("taken"))
    _then(service, monkeypatch, [_depose])
    with pytest.raises(Conflict):
        await create(service, order("taken"))
    await create(service, order("next"))
    await until_placed(service, "next")
    room = service.scheduler._mirror.fleet.room("bm-1")
    assert room is not None
    assert room[1] == (await service.house.hosts.get("bm-1")).instances == 2


async def test_of_a_round_written_request_by_request_what_is_true_stays_when_its_leader_is_deposed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written once more under the next fence, met itself, and its caller was told that the name is in use."""
    await register(service, host("bm-1"))
    _then(service, monkeypatch, [_clash, _do_nothing, _depose])
    await asyncio.gather(*(create(service, order(name)) for name in ("first", "second", "third")))
    await until_placed(service, "third")
    room = service.scheduler._mirror.fleet.room("bm-1")
    assert room is not None
    assert room[1] == (await service.house.hosts.get("bm-1")).instances == 3
    assert (await fsck(service.store)).violations == []


def _then(service: Service, monkeypatch: pytest.MonkeyPatch, deeds: list[Callable[[Service], Awaitable[None]]]) -> None:
    """These happen one by one, each when a round was written, or was not."""
    committer = service.scheduler._committer
    real = committer._write

    async def write(decided: Round, mirror: Mirror) -> None:
        deed = deeds.pop(0) if deeds else _do_nothing
        if deed is _clash:
            await deed(service)
        try:
            await real(decided, mirror)
        finally:
            await deed(service)

    monkeypatch.setattr(committer, "_write", write)


async def _do_nothing(_service: Service) -> None:
    pass


async def _clash(_service: Service) -> None:
    raise Conflict("two processes answer one key, and nobody knows yet whose")


async def _depose(service: Service) -> None:
    async with service.store.transaction() as tx:
        await tx.take_fence()


async def test_a_task_cancelled_between_decision_and_commit_takes_no_room(service: Service) -> None:
    await register(service, host("bm-1", cores=1))
    await create(service, order("holder"))
    view = (await create(service, order("unlucky")))[0]
    async with service.scheduler.hold_still():
        await service.house.vms.delete("holder", expected_version=None, actor="test")
        await service.house.tasks.cancel(view.task_id, expected_version=None, actor="test")
    await asyncio.sleep(0.05)
    assert (await service.house.tasks.get(view.task_id)).task.state is TaskState.CANCELLED
    assert (await create(service, order("lucky")))[0].instance.host == "bm-1"


@pytest.mark.parametrize("point", ["tx.begin", "tx.take_room", "tx.add_tasks", "tx.append_events", "tx.before_commit"])
async def test_a_failing_step_writes_nothing_and_gives_the_room_back(tmp_path: Path, point: str) -> None:
    store = FailingStore(open_store(f"sqlite:///{tmp_path}/virtflow.db"), Failpoints.parse(""))
    service = build(config(tmp_path / "virtflow.db"), store=store, inventories=[])  # type: ignore[arg-type]
    async with service.running():
        await register(service, host("bm-1", cores=50))
        await create(service, order())
        store.failpoints = Failpoints.parse(f"{point}=raise")
        with pytest.raises(Unavailable):
            await create(service, order())
        store.failpoints = Failpoints.parse("")
        for _ in range(8):
            await create(service, order())
        row = await service.house.hosts.get("bm-1")
        assert row.used["cpu"] == row.instances * 1000 == 9000
        assert (await fsck(store)).violations == []  # type: ignore[arg-type]


class AnswerLost:
    """A store whose next commits happen, but whose answer never arrives."""

    def __init__(self, store: Store, *, committed: bool) -> None:
        self._store = store
        self._committed = committed
        self.losing = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        losing = self.losing > 0
        self.losing -= 1
        try:
            async with self._store.transaction() as tx:
                yield tx
                if losing and not self._committed:
                    raise OutcomeUnknown("lost before the commit")
        finally:
            pass
        if losing:
            raise OutcomeUnknown("lost after the commit")


@pytest.mark.parametrize("committed", [True, False])
async def test_a_lost_answer_to_commit_is_looked_up_not_guessed(tmp_path: Path, committed: bool) -> None:
    store = AnswerLost(open_store(f"sqlite:///{tmp_path}/virtflow.db"), committed=committed)
    service = build(config(tmp_path / "virtflow.db"), store=store, inventories=[])  # type: ignore[arg-type]
    async with service.running():
        await register(service, host("bm-1"))
        store.losing = 1
        view = (await create(service, order("web-1")))[0]
        assert view.instance.host == "bm-1"
        assert (await service.house.hosts.get("bm-1")).instances == 1
        assert (await fsck(store)).violations == []  # type: ignore[arg-type]


class Overtaken(AnswerLost):
    """A store that never carries out a commit, and meanwhile somebody else leads and writes."""

    def __init__(self, store: Store, overtake: Callable[[], Awaitable[None]]) -> None:
        super().__init__(store, committed=False)
        self._overtake = overtake

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        is_lost = self.losing > 0
        try:
            async with super().transaction() as tx:
                yield tx
        except OutcomeUnknown:
            if is_lost:
                await self._overtake()
            raise


async def test_what_another_leader_wrote_is_not_taken_for_ones_own(service: Service) -> None:
    """The task had moved, so the lost commit was believed to have happened: its room stayed taken in memory."""
    await register(service, host("small", cores=1), host("bm-1", pool="elsewhere"))
    await create(service, order("web-1", want=wish(cores=2)))  # waits
    store, [[task]] = service.store, [page async for page in service.store.open_tasks()]
    row = await service.house.hosts.get("bm-1")
    shape = (await store.shapes([task.shape_id]))[task.shape_id]

    def decided() -> tuple[Round, Waiting]:
        waiting = Waiting.from_task(task, shape, name="web-1")
        placement = Placement(Request(task.id, shape), row.id, "bm-1", 0.0)
        return Round(submissions=[], now_ms=1, opening=0, placed=[(waiting, placement)]), waiting

    other = Committer(store=store, clock=SystemClock())

    async def overtake() -> None:
        await other.take_fence()
        await other.commit(decided()[0], service.mirror)

    async with service.scheduler.hold_still():
        overtaken = Overtaken(store, overtake)
        ours = Committer(store=overtaken, clock=SystemClock())  # type: ignore[arg-type]
        await ours.take_fence()
        overtaken.losing = 1
        round_, waiting = decided()
        with pytest.raises(Fenced):
            await ours.commit(round_, service.mirror)
        assert [task for task, _ in round_.placed] == [waiting]  # to be undone
    assert (await fsck(store)).violations == []


async def test_a_client_id_in_use_fails_that_request_alone(service: Service) -> None:
    await register(service, host("bm-1"))
    await create(service, order(task_id="batch-7"))
    results = await asyncio.gather(
        create(service, order(task_id="batch-7")), create(service, order()), return_exceptions=True
    )
    assert isinstance(results[0], Conflict)
    assert isinstance(results[1], list)


async def test_wishes_of_any_size_leave_a_ledger_that_adds_up(service: Service) -> None:
    await register(service, *(host(f"bm-{n}", cores=7) for n in range(5)))
    for cores in (1, 2, 3, 4, 5):
        await create(service, *(order(want=wish(cores=cores)) for _ in range(3)))
    report = await fsck(service.store)
    assert report.violations == []
    assert (report.hosts, report.tasks, report.instances) == (5, 15, 15)


class Away:
    """A store that can be cut off and come back, as a database does."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_away = False

    def __getattr__(self, name: str) -> object:
        if self.is_away and name not in ("close", "origin"):
            raise Unavailable("the database does not answer")
        return getattr(self._store, name)


async def test_a_database_that_is_away_is_said_soon_and_work_goes_on_when_it_is_back(tmp_path: Path) -> None:
    store = Away(open_store(f"sqlite:///{tmp_path}/virtflow.db"))
    service = build(config(tmp_path / "virtflow.db"), store=store, inventories=[])  # type: ignore[arg-type]
    async with service.running():
        await register(service, host("bm-1", cores=3))
        fails = VmOrder(shape=wish(cores=9), when_unplaceable=WhenUnplaceable.FAIL)
        doomed = (await create(service, fails))[0]
        store.is_away = True
        for _ in range(3):
            with pytest.raises(Unavailable):
                async with asyncio.timeout(2):
                    await create(service, order())
            await asyncio.sleep(0.1)
        assert not (await service.house.health.check()).ok
        store.is_away = False
        async with asyncio.timeout(5):
            while not (await service.house.health.check()).ok:
                await asyncio.sleep(0.02)
                service.scheduler.knock()
        assert (await create(service, order("back")))[0].instance.host == "bm-1"
        async with asyncio.timeout(10):
            while not (await service.house.tasks.get(doomed.task_id)).task.is_over:
                await asyncio.sleep(0.02)
        assert (await service.house.hosts.get("bm-1")).used["cpu"] == 1000
        assert (await fsck(store)).violations == []  # type: ignore[arg-type]
