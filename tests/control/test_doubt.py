"""Writes of which nobody learns whether they happened: memory follows the database all the same."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.control.conftest import config, host, order, wish
from tests.control.test_schedule import create, ended, register, until_placed

from virtflow.main import Service, build
from virtflow.model.errors import OutcomeUnknown, Unavailable
from virtflow.model.pool import PoolSpec
from virtflow.model.task import TaskState, WhenUnplaceable
from virtflow.store.contract import Moment, Store, Transaction
from virtflow.store.sqlite import SqliteStore

Spoil = Callable[[], Awaitable[None]]


class Spoiled:
    """A store in which something happens before or after the next commits, as long as the list lasts."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.before_reading: list[Spoil] = []
        self.before: list[Spoil] = []
        self.after: list[Spoil] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self.inner.transaction() as tx:
            yield tx
            if self.before:
                await self.before.pop(0)()
        if self.after:
            await self.after.pop(0)()

    @contextlib.asynccontextmanager
    async def moment(self) -> AsyncIterator[Moment]:
        if self.before_reading:
            await self.before_reading.pop(0)()
        async with self.inner.moment() as moment:
            yield moment


async def nothing() -> None:
    pass


async def lose_the_answer() -> None:
    raise OutcomeUnknown("the answer to a commit was lost")


async def hang_up() -> None:
    raise asyncio.CancelledError


@pytest.fixture
async def spoiled(tmp_path: Path) -> AsyncIterator[tuple[Service, Spoiled]]:
    store = Spoiled(SqliteStore(None))
    service = build(config(tmp_path / "unused.db"), store=store, inventories=[])  # type: ignore[arg-type]
    async with service.running():
        yield service, store


@pytest.mark.parametrize("spoil", [lose_the_answer, hang_up])
async def test_a_cordon_that_nobody_confirmed_is_heeded(spoiled: tuple[Service, Spoiled], spoil: Spoil) -> None:
    service, store = spoiled
    await register(service, host("bm-1"), host("bm-2", cores=1))
    store.after.append(spoil)
    with pytest.raises((OutcomeUnknown, asyncio.CancelledError)):
        await service.house.hosts.cordon("bm-1", cordoned=True, expected_version=None, actor="test")
    await create(service, order("a"), order("b"))
    assert {(await service.house.vms.get(name)).instance.host for name in ("a", "b")} == {"bm-2", None}


@pytest.mark.parametrize("spoil", [lose_the_answer, hang_up])
async def test_room_that_a_deletion_gave_back_unheard_is_used(spoiled: tuple[Service, Spoiled], spoil: Spoil) -> None:
    service, store = spoiled
    await register(service, host("bm-1", cores=1))
    await create(service, order("first"))
    await create(service, order("second"))
    store.after.append(spoil)
    with pytest.raises((OutcomeUnknown, asyncio.CancelledError)):
        await service.house.vms.delete("first", expected_version=None, actor="test")
    assert (await until_placed(service, "second")).host == "bm-1"


async def test_a_pool_whose_change_was_not_confirmed_counts(spoiled: tuple[Service, Spoiled]) -> None:
    service, store = spoiled
    await register(service, host("bm-1", cores=1))
    await create(service, order("a"), order("b"))
    store.after.append(lose_the_answer)
    with pytest.raises(OutcomeUnknown):
        await service.house.pools.put(
            PoolSpec(name="default", overcommit={"cpu": 2}), expected_version=None, actor="test"
        )
    assert (await until_placed(service, "b")).host == "bm-1"


async def is_due(service: Service, key: bytes) -> bool:
    task = (await service.house.tasks.get(key)).task
    return task.next_try_ms <= time.time() * 1000


async def test_a_task_whose_placing_was_not_written_is_tried_again_until_it_ends(
    spoiled: tuple[Service, Spoiled],
) -> None:
    """Its alarm had rung for the round that failed, and was set again for tasks that were not placed only."""
    service, store = spoiled
    await register(service, host("bm-1", cores=1))
    view = (await create(service, order("a", want=wish(cores=2), when_unplaceable=WhenUnplaceable.FAIL)))[0]

    async def shrink_again() -> None:
        known = await store.host("bm-1")
        async with store.inner.transaction() as tx:
            await tx.change_host(msgspec.structs.replace(known, allocatable={"cpu": 1000}), expected_version=None)

    async def fail() -> None:
        store.before_reading.append(shrink_again)
        raise Unavailable("the database does not answer")

    store.before += [nothing, fail]  # the change of the host, and the round that it makes possible
    async with service.scheduler.hold_still():  # until the alarm rings, too
        await service.house.hosts.change("bm-1", lambda _: host("bm-1", cores=4), expected_version=None, actor="test")
        while not (await is_due(service, view.task_id)):
            await asyncio.sleep(0.01)
    over = await ended(service, view.task_id, within_s=30.0)
    assert over.task.state is TaskState.FAILED
    assert not store.before
    assert not store.before_reading
