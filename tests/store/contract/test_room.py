"""The ledger: no overcommit, whatever else goes wrong."""

import asyncio
import contextlib

import msgspec
import pytest
from tests.store.builders import Undone, add_hosts, host_named, undone
from tests.store.conftest import OpenAnother

from virtflow.model.host import Host
from virtflow.store.contract import RetryTransaction, RoomChange, Store
from virtflow.store.failures import ImpossibleValue
from virtflow.testing.builders import host


def shrunk(host: Host, **limits: int) -> Host:
    return msgspec.structs.replace(host, allocatable={**host.allocatable, **limits})


async def take(store: Store, *changes: RoomChange) -> frozenset[int]:
    """As a committer does: all or nothing."""
    refused: frozenset[int] = frozenset()
    with contextlib.suppress(Undone):
        async with store.transaction() as tx:
            refused = await tx.take_room(changes)
            if refused:
                raise Undone
    return refused


async def give(store: Store, *changes: RoomChange) -> None:
    async with store.transaction() as tx:
        await tx.give_room(changes)


async def test_room_is_taken_and_given_back(store: Store) -> None:
    [a, b] = await add_hosts(store, "a", "b")
    assert (
        await take(store, RoomChange(a, {"cpu": 500, "memory": 10, "vms": 1}, 1), RoomChange(b, {"cpu": 1}, 2)) == set()
    )
    await give(store, RoomChange(a, {"cpu": 200, "vms": 1}, 1))
    found_a, found_b = await host_named(store, "a"), await host_named(store, "b")
    assert (found_a.used, found_a.instances) == ({"cpu": 300, "memory": 10}, 0)
    assert (found_b.used, found_b.instances) == ({"cpu": 1}, 2)
    assert found_a.version == 1


async def test_nothing_changes_nothing(store: Store) -> None:
    async with store.transaction() as tx:
        assert await tx.take_room([]) == frozenset()
        await tx.give_room([])


@pytest.mark.parametrize("dimension", ["cpu", "memory", "disk", "gpu", "vms", "licences"])
async def test_every_dimension_is_guarded(store: Store, dimension: str) -> None:
    room = host("a", cores=4, memory_gib=4, disk_gib=4, gpus=4, vms=4, custom={"licences": 4})
    [a] = await add_hosts(store, room)
    limit = room.allocatable[dimension]
    assert await take(store, RoomChange(a, {dimension: limit + 1}, 1)) == {a}
    assert await take(store, RoomChange(a, {dimension: limit}, 1)) == set()
    assert await take(store, RoomChange(a, {dimension: 1}, 1)) == {a}
    assert (await host_named(store, "a")).used == {dimension: limit}


@pytest.mark.parametrize("amounts", [{"licences": 1}, {"cpu": 1, "licences": 1}, {"unheard-of": 1}])
async def test_a_host_without_a_dimension_refuses_it(store: Store, amounts: dict[str, int]) -> None:
    [a, b] = await add_hosts(store, "a", host("b", custom={"licences": 1}))
    assert await take(store, RoomChange(a, amounts, 1), RoomChange(b, {"cpu": 1}, 1)) == {a}


async def test_who_refuses_is_named_and_nobody_else(store: Store) -> None:
    ids = await add_hosts(store, *(host(f"h{number}", cores=number) for number in range(1, 6)))
    refused = await take(
        store, *(RoomChange(host_id, {"cpu": 3000}, 1) for host_id in ids), RoomChange(99, {"cpu": 1}, 1)
    )
    assert refused == {ids[0], ids[1], 99}
    for number in range(1, 6):
        assert (await host_named(store, f"h{number}")).used == {}


async def test_a_hundred_claims_for_sixty_four_slots(store: Store) -> None:
    [a] = await add_hosts(store, host("a", cores=64))

    async def claim() -> bool:
        return not await take(store, RoomChange(a, {"cpu": 1000, "vms": 1}, 1))

    results = await asyncio.gather(*(claim() for _ in range(100)))
    found = await host_named(store, "a")
    assert sum(results) == 64
    assert (found.used, found.instances) == ({"cpu": 64_000, "vms": 64}, 64)


@pytest.mark.service("postgresql")
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_claims_of_several_processes_in_opposite_orders(store: Store, another: OpenAnother) -> None:
    """Batches over the same hosts from three sides: no deadlock, no overcommit, none left free."""
    hosts = [host(f"h{number}", cores=10) for number in range(8)]
    ids = await add_hosts(store, *hosts)
    stores = [store, await another(), await another()]

    async def claim(number: int) -> int:
        order = ids if number % 2 else ids[::-1]
        changes = [RoomChange(host_id, {"cpu": 1000}, 1) for host_id in order]
        return 0 if await take(stores[number % 3], *changes) else 1

    results = await asyncio.gather(*(claim(number) for number in range(30)))
    assert sum(results) == 10
    assert [(await host_named(store, one.name)).used["cpu"] for one in hosts] == [10_000] * 8


async def test_what_the_world_took_away_is_recorded_and_nothing_more_is_given(store: Store) -> None:
    [a] = await add_hosts(store, host("a", cores=8, memory_gib=8))
    await take(store, RoomChange(a, {"cpu": 6000, "memory": 1024}, 2))
    async with store.transaction() as tx:
        await tx.change_host(shrunk(await host_named(store, "a"), cpu=4000), expected_version=None)
    found = await host_named(store, "a")
    assert (found.allocatable["cpu"], found.used["cpu"], found.free["cpu"]) == (4000, 6000, 0)
    assert await take(store, RoomChange(a, {"cpu": 1}, 1)) == {a}
    # what is not short is not forbidden
    assert await take(store, RoomChange(a, {"memory": 1}, 1)) == set()


async def test_an_overfull_host_gives_again_when_enough_came_back(store: Store) -> None:
    [a] = await add_hosts(store, host("a", cores=8))
    await take(store, RoomChange(a, {"cpu": 6000}, 2))
    async with store.transaction() as tx:
        await tx.change_host(shrunk(await host_named(store, "a"), cpu=4000), expected_version=None)
    await give(store, RoomChange(a, {"cpu": 1000}, 1))
    assert await take(store, RoomChange(a, {"cpu": 1}, 1)) == {a}
    await give(store, RoomChange(a, {"cpu": 1500}, 1))
    assert await take(store, RoomChange(a, {"cpu": 501}, 1)) == {a}
    assert await take(store, RoomChange(a, {"cpu": 500}, 1)) == set()
    with pytest.raises(ImpossibleValue):  # the second guard is back, too
        await corrupt(store, "UPDATE room SET used_cpu = limit_cpu + 1")


async def test_a_host_that_grows_again_is_an_ordinary_one(store: Store) -> None:
    [a] = await add_hosts(store, host("a", cores=8))
    await take(store, RoomChange(a, {"cpu": 6000}, 2))
    for cpu in (4000, 8000):
        async with store.transaction() as tx:
            await tx.change_host(shrunk(await host_named(store, "a"), cpu=cpu), expected_version=None)
    with pytest.raises(ImpossibleValue):
        await corrupt(store, "UPDATE room SET used_cpu = limit_cpu + 1")
    assert await take(store, RoomChange(a, {"cpu": 2000}, 1)) == set()


async def test_more_cannot_come_back_than_was_taken(store: Store) -> None:
    [a] = await add_hosts(store, "a")
    await take(store, RoomChange(a, {"cpu": 10}, 1))
    with pytest.raises(ImpossibleValue):
        await give(store, RoomChange(a, {"cpu": 11}, 1))
    with pytest.raises(ImpossibleValue):
        await give(store, RoomChange(a, {"cpu": 1}, 2))
    with pytest.raises(ImpossibleValue, match="gone"):
        await give(store, RoomChange(99, {"cpu": 1}, 1))
    assert (await host_named(store, "a")).used == {"cpu": 10}


@pytest.mark.parametrize("statement", ["used_cpu = -1", "used_x8 = -1", "used_cpu = limit_cpu + 1", "instances = -1"])
async def test_the_second_guard_holds_when_the_first_is_off(store: Store, statement: str) -> None:
    await add_hosts(store, "a")
    with pytest.raises(ImpossibleValue):
        await corrupt(store, f"UPDATE room SET {statement}")
    assert (await host_named(store, "a")).used == {}


async def test_the_first_guard_holds_when_the_second_is_off(store: Store) -> None:
    [a] = await add_hosts(store, host("a", cores=1))
    await corrupt(store, "UPDATE room SET shrunk = (1 = 1)")
    assert await take(store, RoomChange(a, {"cpu": 1001}, 1)) == {a}
    assert await take(store, RoomChange(a, {"cpu": 1000}, 1)) == set()


@pytest.mark.parametrize(
    "changes",
    [
        [RoomChange(1, {"cpu": 1}, 1), RoomChange(1, {"cpu": 1}, 1)],
        [RoomChange(1, {"cpu": -1}, 1)],
        [RoomChange(1, {}, -1)],
    ],
)
async def test_mistakes_of_the_caller_are_refused(store: Store, changes: list[RoomChange]) -> None:
    await add_hosts(store, "a")
    for step in ("take_room", "give_room"):
        with pytest.raises(ValueError, match=r"one change per host|never negative"):
            async with store.transaction() as tx:
                await getattr(tx, step)(changes)


async def test_a_thousand_hosts_at_once(store: Store) -> None:
    ids = await add_hosts(store, *(host(f"h{number}", cores=1) for number in range(1_000)))
    everywhere = [RoomChange(host_id, {"cpu": 600}, 1) for host_id in ids]
    assert await take(store, *everywhere) == set()
    assert await take(store, *everywhere) == set(ids)
    assert (await store.counts()).hosts == 1_000


async def test_one_that_refuses_among_many_with_just_enough(store: Store) -> None:
    """A large batch is tried as a whole first: what that took must not be missing when each is asked alone."""
    ids = await add_hosts(store, *(host(f"h{number:03}", cores=1) for number in range(600)))
    assert await take(store, RoomChange(ids[300], {"cpu": 1}, 1)) == set()
    everywhere = [RoomChange(host_id, {"cpu": 1000}, 1) for host_id in ids]
    assert await take(store, *everywhere) == {ids[300]}
    assert await take(store, *everywhere[:300], *everywhere[301:]) == set()


async def corrupt(store: Store, sql: str) -> None:
    """What a bug of ours, or somebody at the console, might try."""
    async with store.transaction() as tx:
        tx._session._statements = {"wrong": sql}  # type: ignore[attr-defined]
        await tx._session.rows("wrong")  # type: ignore[attr-defined]


async def test_room_of_a_transaction_that_fails_comes_back(store: Store) -> None:
    [a] = await add_hosts(store, host("a", cores=1))
    for error in (ZeroDivisionError(), asyncio.CancelledError(), RetryTransaction("now")):
        async with undone(store, error) as tx:
            assert await tx.take_room([RoomChange(a, {"cpu": 1000}, 1)]) == frozenset()
    assert (await host_named(store, "a")).used == {}
