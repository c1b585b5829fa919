"""Transactions: all or nothing, one after the other, and never used by accident afterwards."""

import asyncio
import contextlib

import pytest
from tests.store.builders import add_hosts, event, host_named, undone

from virtflow.model.errors import Conflict, Fenced, Unavailable
from virtflow.store.contract import HostFilter, RoomChange, Store, Transaction
from virtflow.store.failures import ImpossibleValue
from virtflow.testing.builders import host


async def test_everything_of_a_transaction_is_true_or_nothing(store: Store) -> None:
    async with undone(store) as tx:
        [host_id] = await tx.add_hosts([host("a")])
        await tx.take_room([RoomChange(host_id, {"cpu": 1}, 1)])
        await tx.take_fence()
        await tx.set_setting("k", "v")
        await tx.append_events([event()])
    assert await store.host("a") is None
    assert await store.setting("k") is None
    assert await store.event_range() == (1, 0)
    async with store.transaction() as tx:
        assert await tx.take_fence() == 1


async def test_what_is_not_committed_is_not_seen(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.add_hosts([host("a")])
        assert await store.host("a") is None
        assert await store.hosts(HostFilter(), limit=9) == []
        assert await store.setting("k") is None
    assert await store.host("a") is not None


async def test_a_transaction_that_is_over_does_nothing_more(store: Store) -> None:
    kept: list[Transaction] = []
    async with store.transaction() as tx:
        kept.append(tx)
    async with undone(store) as tx:
        kept.append(tx)
    for tx in kept:
        with pytest.raises(Unavailable, match="is over"):
            await tx.set_setting("k", "v")
    assert await store.setting("k") is None


async def test_a_swallowed_error_does_not_commit_half(store: Store) -> None:
    [host_id] = await add_hosts(store, "a")

    async def swallow() -> None:
        async with store.transaction() as tx:
            await tx.set_setting("k", "v")
            with contextlib.suppress(ImpossibleValue):
                await tx.give_room([RoomChange(host_id, {"cpu": 1}, 1)])

    with pytest.raises(ImpossibleValue):
        await swallow()
    assert await store.setting("k") is None


async def test_cancelling_in_the_middle_leaves_nothing(store: Store) -> None:
    inside = asyncio.Event()

    async def write() -> None:
        async with store.transaction() as tx:
            await tx.set_setting("k", "v")
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(write())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.setting("k") is None
    async with store.transaction() as tx:
        await tx.set_setting("k", "w")
    assert await store.setting("k") == "w"


async def test_cancelling_many_at_any_moment_leaves_whole_ones(store: Store) -> None:
    async def write(number: int) -> None:
        async with store.transaction() as tx:
            await tx.set_setting(f"a{number}", "v")
            await tx.append_events([event(number)])
            await tx.set_setting(f"b{number}", "v")

    for number in range(40):
        task = asyncio.create_task(write(number))
        for _ in range(number % 20):
            await asyncio.sleep(0)
        await asyncio.sleep(0.0003 * (number % 7))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    for number in range(40):
        assert (await store.setting(f"a{number}")) == (await store.setting(f"b{number}"))
    _, newest = await store.event_range()
    written = [number for number in range(40) if await store.setting(f"a{number}")]
    assert newest == len(written)


async def test_the_newest_fence_wins(store: Store) -> None:
    async with store.transaction() as tx:
        first = await tx.take_fence()
        await tx.check_fence(first)
    async with store.transaction() as tx:
        second = await tx.take_fence()
    assert second == first + 1
    for wrong in (first, second + 1):  # an epoch nobody drew belongs to another history
        with pytest.raises(Fenced):
            async with store.transaction() as tx:
                await tx.check_fence(wrong)
    async with store.transaction() as tx:
        await tx.check_fence(second)


async def test_a_fence_that_was_checked_holds_until_the_commit(store: Store) -> None:
    async with store.transaction() as tx:
        fence = await tx.take_fence()
    order: list[str] = []
    checked = asyncio.Event()

    async def decide() -> None:
        async with store.transaction() as tx:
            await tx.check_fence(fence)
            checked.set()
            await asyncio.sleep(0.05)
            await tx.set_setting("decided", "yes")
            order.append("decided")

    async def take_over() -> None:
        await checked.wait()
        async with store.transaction() as tx:
            await tx.take_fence()
            order.append("taken over")

    await asyncio.gather(decide(), take_over())
    assert order == ["decided", "taken over"]


async def test_settings_are_replaced(store: Store) -> None:
    assert await store.setting("k") is None
    for value in ("1", "2", ""):
        async with store.transaction() as tx:
            await tx.set_setting("k", value)
        assert await store.setting("k") == value


async def test_an_empty_transaction_is_nothing(store: Store) -> None:
    async with store.transaction():
        pass
    await store.ping()


async def test_a_conflict_inside_does_not_spoil_the_next(store: Store) -> None:
    await add_hosts(store, "a")
    with pytest.raises(Conflict):
        await add_hosts(store, "a")
    await add_hosts(store, "b")
    assert (await host_named(store, "b")).name == "b"


async def test_a_closed_store_says_so(store: Store) -> None:
    await store.close()
    with pytest.raises(Unavailable):
        await store.ping()
    with pytest.raises(Unavailable):
        async with store.transaction():
            pass
    await store.close()
    await store.open()
    await store.ping()


async def test_the_history_has_a_name_that_stays(store: Store) -> None:
    name = await store.history_id()
    assert len(name) == 36
    await store.close()
    await store.open()
    assert await store.history_id() == name
