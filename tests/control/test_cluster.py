"""Two processes' worth of virtflow on one database: one leads, both accept, and both know the same."""

import asyncio
import contextlib
import dataclasses
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.control.conftest import config, host, order, wish
from tests.control.test_schedule import create, ended, register, until_placed

from virtflow.control.fsck import fsck
from virtflow.main import Service, build
from virtflow.main import service as main
from virtflow.model.errors import Conflict, Fenced, InvalidRequest
from virtflow.model.event import Event
from virtflow.model.pool import PoolSpec
from virtflow.model.task import TaskState, WhenUnplaceable
from virtflow.store.contract import EventFilter
from virtflow.store.open import open_store
from virtflow.testing.election import Assembly

pytestmark = pytest.mark.service("postgresql")

SOON_S = 10.0


@dataclasses.dataclass
class Pair:
    """Two services on one database. Who leads is for the assembly to say."""

    first: Service
    second: Service
    assembly: Assembly

    @property
    def leader(self) -> Service:
        return self.first if self.first.scheduler.is_leading else self.second

    @property
    def follower(self) -> Service:
        return self.second if self.leader is self.first else self.first

    async def change_the_lead(self) -> None:
        next_one = self.follower
        self.assembly.depose()
        await soon(lambda: next_one.scheduler.is_leading)


Together = Callable[..., contextlib.AbstractAsyncContextManager[Pair]]


async def soon(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(SOON_S):
        while True:
            result = holds()
            if result if isinstance(result, bool) else await result:
                return
            await asyncio.sleep(0.01)


@pytest.fixture
def together(postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Together:
    # the second one need not wait long to see that it does not lead
    monkeypatch.setattr(main, "LEAD_AT_START_S_MAX", 0.02)

    @contextlib.asynccontextmanager
    async def running(*, seats: int = 1, **flags: str) -> AsyncIterator[Pair]:
        assembly = Assembly(seats=seats)
        # a slow tick: what is placed was heard of, not found by the clock
        given = {"database_url": postgresql_url, "tick_s": "30", **flags}
        services = [
            build(config(tmp_path / "unused.db", **given), inventories=[], election=assembly.candidate())
            for _ in range(2)
        ]
        async with services[0].running(), services[1].running():
            if main.SCHEDULER in services[0].config.role:
                await soon(lambda: any(service.scheduler.is_leading for service in services))
            yield Pair(services[0], services[1], assembly)
        assert await violations(postgresql_url) == []

    return running


@pytest.fixture
async def pair(together: Together) -> AsyncIterator[Pair]:
    async with together() as pair:
        yield pair


async def violations(url: str) -> list[object]:
    store = open_store(url, reading=True)
    await store.open()
    try:
        return list((await fsck(store)).violations)
    finally:
        await store.close()


async def used_cores(service: Service, name: str) -> int:
    return (await service.house.hosts.get(name)).used.get("cpu", 0) // 1000


# ── the walk, when the leader lives elsewhere ──────────────────────────────────────────────────────


async def test_what_a_follower_accepts_the_leader_places_without_waiting_for_the_clock(pair: Pair) -> None:
    await register(pair.leader, host("bm-1"))
    view = (await create(pair.follower, order("web-1")))[0]
    assert view.instance.host is None  # accepted and durable: somebody else decides
    placed = await until_placed(pair.follower, "web-1")
    assert placed.host == "bm-1"
    assert placed.address == "10.0.0.1"


async def test_a_follower_answers_as_a_leader_does(pair: Pair) -> None:
    await register(pair.follower, host("bm-1", cores=2))
    view = (await create(pair.follower, order(want=wish(cores=3), when_unplaceable=WhenUnplaceable.FAIL)))[0]
    over = await ended(pair.follower, view.task_id, within_s=SOON_S)
    assert over.task.state is TaskState.FAILED
    assert over.explanation is not None
    assert over.explanation.hosts_considered == 1


async def test_both_processes_know_the_same_fleet(pair: Pair) -> None:
    await register(pair.follower, host("bm-1", cores=4))
    await create(pair.leader, order("web", want=wish(cores=3)))
    await until_placed(pair.leader, "web")  # also where the leader had not heard of the host yet
    await pair.follower.follower.catch_up()
    for service in (pair.leader, pair.follower):
        previews = await service.house.placements.explain_all([wish(), wish()], runners_up=0)
        assert [preview.winner is not None for preview in previews] == [True, False]


async def test_room_given_back_elsewhere_lets_the_next_one_in(pair: Pair) -> None:
    await register(pair.leader, host("bm-1", cores=2))
    await create(pair.follower, order("first", want=wish(cores=2)))
    await until_placed(pair.follower, "first")
    await create(pair.follower, order("second", want=wish(cores=2)))
    await pair.follower.house.vms.delete("first", expected_version=None, actor="test")
    assert (await until_placed(pair.follower, "second")).host == "bm-1"


async def test_a_cordon_set_elsewhere_is_kept(pair: Pair) -> None:
    await register(pair.leader, host("bm-1"), host("bm-2"))
    await pair.follower.house.hosts.cordon("bm-1", cordoned=True, expected_version=None, actor="test")
    await pair.leader.follower.catch_up()
    views = await create(pair.leader, *(order() for _ in range(6)))
    assert Counter(view.instance.host for view in views) == {"bm-2": 6}


async def test_a_host_deleted_elsewhere_gets_nothing_even_before_the_leader_heard(pair: Pair) -> None:
    await register(pair.leader, host("bm-1"), host("bm-2", cores=1))
    await pair.follower.house.hosts.delete("bm-1", expected_version=None, actor="test")
    view = (await create(pair.leader, order("web-1")))[0]
    placed = await until_placed(pair.leader, view.instance.name)
    assert placed.host == "bm-2"


async def test_a_gang_accepted_by_a_follower_is_placed_whole_or_not_at_all(pair: Pair) -> None:
    await register(pair.leader, host("bm-1", cores=3))
    await create(pair.follower, *(order(f"big-{n}") for n in range(4)), together=True)
    await create(pair.follower, *(order(f"fits-{n}") for n in range(3)), together=True)
    for n in range(3):
        assert (await until_placed(pair.follower, f"fits-{n}")).host == "bm-1"
    for n in range(4):
        assert (await pair.follower.house.vms.get(f"big-{n}")).instance.host is None


async def test_what_a_follower_accepts_can_be_cancelled_at_either(pair: Pair) -> None:
    await register(pair.leader, host("bm-1", cores=1))
    for service in (pair.leader, pair.follower):
        view = (await create(pair.follower, order(want=wish(cores=2))))[0]
        await service.house.tasks.cancel(view.task_id, expected_version=None, actor="test")
        assert (await pair.follower.house.tasks.get(view.task_id)).task.state is TaskState.CANCELLED
    assert (await create(pair.leader, order()))[0].instance.host == "bm-1"


async def test_a_pool_made_elsewhere_a_moment_ago_is_known(pair: Pair) -> None:
    with pytest.raises(InvalidRequest):
        await create(pair.follower, order(want=wish(pool="gold")))
    await pair.leader.house.pools.put(PoolSpec(name="gold"), expected_version=None, actor="test")
    view = (await create(pair.follower, order(want=wish(pool="gold"))))[0]
    assert view.instance.host is None


async def test_a_name_is_given_once_whoever_is_asked(pair: Pair) -> None:
    await register(pair.leader, host("bm-1"))
    results = await asyncio.gather(
        create(pair.leader, order("web")), create(pair.follower, order("web")), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, BaseException)]
    assert len(refused) == 1
    assert isinstance(refused[0], Conflict)


async def test_everybody_hears_in_the_log_who_decides_from_now_on(pair: Pair) -> None:
    async def elections() -> list[Event]:
        return await pair.first.store.events(EventFilter(types=("leader.",)), after=0, limit=10)

    [before] = await elections()
    assert (before.type, before.id, before.origin) == ("leader.elected", "scheduler", pair.leader.store.origin)
    await pair.change_the_lead()
    _, after = await elections()
    assert (after.version, after.fence) == (before.version + 1, before.fence + 1)
    assert after.origin == pair.leader.store.origin != before.origin


# ── the lead changes ───────────────────────────────────────────────────────────────────────────────


async def test_when_the_lead_changes_the_new_one_places_what_waits_and_what_comes(pair: Pair) -> None:
    await register(pair.leader, host("bm-1", cores=4))
    await create(pair.leader, order("waits", want=wish(cores=8)))
    before = pair.leader
    await pair.change_the_lead()
    assert pair.leader is not before
    await register(before, host("bm-2", cores=8))
    assert (await until_placed(before, "waits")).host == "bm-2"
    assert (await create(pair.leader, order("comes")))[0].instance.host == "bm-1"


async def test_the_fence_grows_with_every_change_and_never_goes_back_in_the_log(pair: Pair) -> None:
    await register(pair.leader, host("bm-1", cores=50))
    for n in range(4):
        await create(pair.leader, order(f"vm-{n}"))
        await pair.change_the_lead()
    await create(pair.leader, order("last"))
    events = await pair.leader.store.events(EventFilter(types=("task.completed",)), after=0, limit=100)
    fences = [event.fence for event in events]
    assert fences == sorted(fences)
    assert len(set(fences)) == 5


async def test_a_leader_fenced_in_the_middle_hands_over_what_it_took_in(pair: Pair) -> None:
    await register(pair.leader, host("bm-1"))
    old = pair.leader
    async with pair.follower.store.transaction() as tx:
        await tx.take_fence()
    await create(old, order("late"))
    assert (await until_placed(pair.follower, "late")).host == "bm-1"


async def test_requests_go_on_while_the_lead_changes_again_and_again(pair: Pair) -> None:
    await register(pair.leader, host("bm-1", cores=40), host("bm-2", cores=40))
    stop = asyncio.Event()
    made: list[str] = []

    async def ask(service: Service, who: str) -> None:
        while not stop.is_set():
            name = f"{who}-{len(made)}"
            await create(service, order(name))
            made.append(name)
            if len(made) > 70:
                return

    asking = [asyncio.create_task(ask(pair.first, "a")), asyncio.create_task(ask(pair.second, "b"))]
    for _ in range(6):
        await pair.change_the_lead()
    await soon(lambda: len(made) > 20)
    stop.set()
    await asyncio.gather(*asking)
    for name in made:
        await until_placed(pair.first, name)
    assert await used_cores(pair.first, "bm-1") + await used_cores(pair.first, "bm-2") == len(made)


async def test_two_leaders_at_once_give_away_nothing_twice(together: Together) -> None:
    async with together(seats=2) as pair:
        await register(pair.first, host("bm-1", cores=10), host("bm-2", cores=10))
        results = await asyncio.gather(
            *(create(service, *(order() for _ in range(4))) for service in (pair.first, pair.second) for _ in range(4)),
        )
        assert sum(map(len, results)) == 32

        async def full() -> bool:
            return await used_cores(pair.first, "bm-1") + await used_cores(pair.first, "bm-2") == 20

        await soon(full)
        counts = await pair.first.store.counts()
        assert counts.instances == 32
        assert counts.instances_placed == 20


async def test_a_process_that_stops_hands_over_at_once_and_loses_nothing(together: Together) -> None:
    async with together() as pair:
        await register(pair.first, host("bm-1", cores=50))
    async with together() as pair:  # the one on the outside stops last
        view = (await create(pair.second, order("web")))[0]
        assert (await until_placed(pair.second, view.instance.name)).host == "bm-1"


async def test_a_leader_may_not_look_at_tasks_after_it_was_deposed(pair: Pair) -> None:
    old = pair.leader
    await pair.change_the_lead()
    with pytest.raises(Exception, match="does not lead"):
        await old.scheduler.look_at([b"x" * 16])


async def test_looking_at_tasks_returns_when_each_has_its_host_or_waits(pair: Pair) -> None:
    await register(pair.leader, host("bm-1", cores=1))
    views = await create(pair.follower, order("fits"), order("waits"))
    await pair.leader.scheduler.look_at([view.task_id for view in views])
    hosts = [(await pair.follower.house.vms.get(name)).instance.host for name in ("fits", "waits")]
    assert hosts == ["bm-1", None]


async def test_an_old_fence_is_refused_by_the_database(pair: Pair) -> None:
    async with pair.first.store.transaction() as tx:
        old = await tx.take_fence()
    async with pair.second.store.transaction() as tx:
        await tx.take_fence()
    with pytest.raises(Fenced):
        async with pair.first.store.transaction() as tx:
            await tx.check_fence(old)
