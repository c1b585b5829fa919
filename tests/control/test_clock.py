"""What time it is, where several processes share a database."""

from typing import cast

import pytest
from tests.control.conftest import config, order
from tests.control.test_cluster import soon

from virtflow.control import clock
from virtflow.control.clock import SharedClock, SystemClock
from virtflow.main import build
from virtflow.model.task import TaskState
from virtflow.store.contract import Store
from virtflow.store.open import open_store
from virtflow.testing.clock import ManualClock
from virtflow.testing.election import Assembly

DAY_S = 86_400
DAY_MS = DAY_S * 1000


class Far:
    """A database whose clock is ours to set, and whose answers take their time."""

    def __init__(self, own: ManualClock) -> None:
        self.clock = ManualClock(own.now_ms())
        self.answer_s = 0.0
        self._own = own

    async def now_ms(self) -> int:
        for each in (self.clock, self._own):
            each.advance(self.answer_s / 2)
        told = self.clock.now_ms()
        for each in (self.clock, self._own):
            each.advance(self.answer_s / 2)
        return told

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._own.advance(seconds)


@pytest.fixture
def own() -> ManualClock:
    return ManualClock()


@pytest.fixture
def far(own: ManualClock) -> Far:
    return Far(own)


@pytest.fixture
def shared(own: ManualClock, far: Far) -> SharedClock:
    return SharedClock(own, cast(Store, far))


async def test_before_the_database_was_asked_our_own_clock_must_do(own: ManualClock, shared: SharedClock) -> None:
    assert (shared.now_ms(), shared.monotonic_s()) == (own.now_ms(), own.monotonic_s())


@pytest.mark.parametrize("jump_ms", [-DAY_MS, -60_000, 60_000, DAY_MS])
async def test_a_jump_of_our_own_wall_clock_changes_nothing(
    own: ManualClock, far: Far, shared: SharedClock, jump_ms: int
) -> None:
    await shared.ask()
    far.advance(1)
    own.set_wall(own.now_ms() + jump_ms)
    assert shared.now_ms() == far.clock.now_ms()
    far.advance(10)
    await shared.ask()
    assert shared.now_ms() == far.clock.now_ms()


async def test_who_starts_with_a_wrong_clock_is_put_right(own: ManualClock, far: Far, shared: SharedClock) -> None:
    own.set_wall(own.now_ms() + DAY_MS)
    far.answer_s = 0.3
    await shared.ask()
    assert abs(shared.now_ms() - far.clock.now_ms()) <= 1


async def test_another_database_may_have_another_clock(far: Far, shared: SharedClock) -> None:
    """After a replica took over, on another machine."""
    await shared.ask()
    far.clock.set_wall(far.clock.now_ms() - 5_000)
    far.answer_s = 0.1
    await shared.ask()
    assert abs(shared.now_ms() - far.clock.now_ms()) <= 1


async def test_what_an_answer_cannot_tell_is_no_reason_to_jump(far: Far, shared: SharedClock) -> None:
    await shared.ask()
    expected = far.clock.now_ms()
    far.clock.set_wall(expected + clock.APART_MS_MAX)
    await shared.ask()
    assert shared.now_ms() == expected
    far.clock.set_wall(expected + 1_000)
    far.answer_s = clock.ANSWER_S_MAX + 0.1  # we were stopped meanwhile, or the database was
    await shared.ask()
    assert shared.now_ms() == expected + round(far.answer_s * 1000)


class Ahead(SystemClock):
    """The clock of a machine that nobody has set."""

    def now_ms(self) -> int:
        return super().now_ms() + DAY_MS


@pytest.mark.service("postgresql")
async def test_an_order_taken_by_a_process_whose_clock_is_a_day_ahead_ends_at_its_deadline(
    postgresql_url: str, tmp_path: object
) -> None:
    """It used to wait a day longer, and so did its next try."""
    assembly = Assembly()
    settings = config(tmp_path / "unused.db", database_url=postgresql_url, tick_s="0.1")  # type: ignore[operator]
    leader = build(settings, inventories=[], election=assembly.candidate())
    store = open_store(postgresql_url, origin="far-1-a")
    taker = build(
        settings, inventories=[], election=assembly.candidate(), store=store, clock=SharedClock(Ahead(), store)
    )
    async with leader.running(), taker.running():
        assert leader.scheduler.is_leading
        [view] = await taker.house.vms.create(
            [order("late", deadline_s=1)], together=False, actor="operator", check_pool=False
        )

        async def over() -> bool:
            task = await leader.store.task(view.task_id)
            return task is not None and task.state is TaskState.FAILED

        await soon(over)
        task = await leader.store.task(view.task_id)
        assert task is not None
        assert task.ended_ms is not None
        assert task.code == "deadline_exceeded"
        assert abs(task.accepted_ms - await store.now_ms()) < DAY_MS / 2
