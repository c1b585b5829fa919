"""Hosts: reading, changing, the cordon, deletion."""

import asyncio

import msgspec
import pytest
from tests.store.builders import NOW_MS, add_hosts, add_instances, add_tasks, host_named, instance, intern, task, undone
from tests.store.conftest import OpenAnother

from virtflow.model.errors import Conflict, InvalidRequest, NotFound, VersionMismatch
from virtflow.model.host import Host, HostSpec, Source
from virtflow.model.limits import CUSTOM_DIMENSIONS_MAX
from virtflow.store.contract import HostFilter, RetryTransaction, RoomChange, Store
from virtflow.testing.builders import host


def respecified(host: Host, **more: object) -> Host:
    return msgspec.structs.replace(host, spec=msgspec.structs.replace(host.spec, **more))


async def test_a_host_comes_back_as_it_was_written(store: Store) -> None:
    written = Host(
        id=0,
        spec=HostSpec(
            name="bm-1",
            pool="gold",
            address="10.0.0.1",
            capacity={"cpu": 16_000, "memory": 65_536, "licences": 3},
            overcommit={"cpu": 1.5},
            reserved={"memory": 1024},
            labels={"rack.unit": "7", "a": "b c", "quote": "'\"\\"},
            zone="z1",
            rack="r1",
            model="m",
            dedicated=True,
        ),
        source=Source.HTTP,
        foreign={"cpu": 500},
        missing_since_ms=NOW_MS,
        created_ms=NOW_MS,
        updated_ms=NOW_MS + 1,
        total={"cpu": 24_000, "memory": 65_536, "licences": 3},
        allocatable={"cpu": 23_500, "memory": 64_512, "licences": 3},
    )
    [host_id] = await add_hosts(store, written)
    assert await store.host("bm-1") == msgspec.structs.replace(written, id=host_id)
    assert await store.hosts_by_id([host_id, host_id + 1]) == [msgspec.structs.replace(written, id=host_id)]


async def test_unknown_hosts_are_none(store: Store) -> None:
    assert await store.host("nobody") is None
    assert await store.hosts_by_id([]) == []
    assert await store.hosts_by_id([77]) == []


async def test_ids_come_in_the_order_of_the_hosts(store: Store) -> None:
    ids = await add_hosts(store, "c", "a", "b")
    assert [(await host_named(store, name)).id for name in "cab"] == ids


async def test_the_first_name_that_exists_is_named(store: Store) -> None:
    await add_hosts(store, "b", "c")
    with pytest.raises(Conflict, match="host b exists") as caught:
        await add_hosts(store, "a", "b", "c")
    assert caught.value.error_code == "already_exists"
    assert await store.host("a") is None


async def test_a_name_given_twice_at_once_is_refused(store: Store) -> None:
    with pytest.raises(Conflict, match="host a exists"):
        await add_hosts(store, "a", "a")


async def test_hosts_are_listed_by_name_page_by_page(store: Store) -> None:
    await add_hosts(store, *(f"h{number:02}" for number in range(25)))
    first = await store.hosts(HostFilter(), limit=10)
    second = await store.hosts(HostFilter(), after=first[-1].name, limit=10)
    third = await store.hosts(HostFilter(), after=second[-1].name, limit=10)
    assert [one.name for one in first + second + third] == [f"h{number:02}" for number in range(25)]
    assert await store.hosts(HostFilter(), after=third[-1].name, limit=10) == []


async def test_all_hosts_are_read_in_chunks(store: Store) -> None:
    names = sorted(f"h{number}" for number in range(1_203))
    await add_hosts(store, *reversed(names))
    chunks = [chunk async for chunk in store.all_hosts()]
    assert len(chunks) > 1
    assert [one.name for chunk in chunks for one in chunk] == names


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (HostFilter(pool="gold"), ["b", "c"]),
        (HostFilter(pool=""), ["d"]),
        (HostFilter(zone="z1"), ["a", "c"]),
        (HostFilter(labels=(("disk", "ssd"),)), ["a", "b"]),
        (HostFilter(labels=(("disk", "ssd"), ("rack.unit", "1"))), ["b"]),
        (HostFilter(labels=(("disk", "s%"),)), []),
        (HostFilter(cordoned=True), ["b"]),
        (HostFilter(cordoned=False), ["a", "c", "d"]),
        (HostFilter(missing=True), ["c"]),
        (HostFilter(missing=False, pool="gold"), ["b"]),
        (HostFilter(source=Source.FILE), []),
        (HostFilter(source=Source.API, zone="z1", pool="gold"), ["c"]),
    ],
)
async def test_filters_of_the_list_are_combined(store: Store, where: HostFilter, names: list[str]) -> None:
    await add_hosts(
        store,
        host("a", zone="z1", labels={"disk": "ssd"}),
        host("b", pool="gold", labels={"disk": "ssd", "rack.unit": "1"}, cordoned=True),
        host("c", pool="gold", zone="z1", missing=True),
        host("d", pool=""),
    )
    assert [one.name for one in await store.hosts(where, limit=10)] == names


async def test_a_change_raises_the_version(store: Store) -> None:
    await add_hosts(store, "a")
    before = await host_named(store, "a")
    changed = respecified(before, address="10.9.9.9", labels={"x": "y"}, pool="gold")
    changed = msgspec.structs.replace(changed, missing_since_ms=5, foreign={"cpu": 7}, source=Source.HTTP, updated_ms=9)
    async with store.transaction() as tx:
        after = await tx.change_host(changed, expected_version=1)
    assert after == msgspec.structs.replace(changed, version=2) == await store.host("a")


async def test_a_change_of_an_older_version_is_refused(store: Store) -> None:
    await add_hosts(store, "a")
    before = await host_named(store, "a")
    async with store.transaction() as tx:
        await tx.change_host(respecified(before, address="1"), expected_version=1)
    with pytest.raises(VersionMismatch) as caught:
        async with store.transaction() as tx:
            await tx.change_host(respecified(before, address="2"), expected_version=1)
    assert caught.value.current_version == 2
    assert (await host_named(store, "a")).spec.address == "1"


async def test_a_change_of_nobody_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        async with store.transaction() as tx:
            await tx.change_host(host("a", id=7), expected_version=None)


async def test_a_host_may_be_renamed_but_not_over_another(store: Store) -> None:
    await add_hosts(store, "a", "b")
    before = await host_named(store, "a")
    with pytest.raises(Conflict, match="host b exists"):
        async with store.transaction() as tx:
            await tx.change_host(respecified(before, name="b"), expected_version=None)
    async with store.transaction() as tx:
        await tx.change_host(respecified(before, name="c"), expected_version=None)
    assert [one.name for one in await store.hosts(HostFilter(), limit=9)] == ["b", "c"]


async def test_a_cordon_is_not_lost_by_a_heartbeat_that_read_before_it(store: Store) -> None:
    """Orchard 2.1: the heartbeat wrote back the whole host it had read, and with it the former scheduling flag."""
    await add_hosts(store, "a")
    read_before = await host_named(store, "a")
    async with store.transaction() as tx:
        await tx.set_cordon("a", cordoned=True, at_ms=1, expected_version=None)
    async with store.transaction() as tx:
        await tx.change_host(respecified(read_before, address="new"), expected_version=None)
    after = await host_named(store, "a")
    assert (after.cordoned, after.spec.address, after.version) == (True, "new", 3)


async def test_a_cordon_and_many_changes_at_once_lose_nothing(store: Store) -> None:
    await add_hosts(store, "a")
    before = await host_named(store, "a")

    async def beat(number: int) -> None:
        async with store.transaction() as tx:
            await tx.change_host(respecified(before, address=str(number)), expected_version=None)

    async def cordon() -> None:
        async with store.transaction() as tx:
            await tx.set_cordon("a", cordoned=True, at_ms=1, expected_version=None)

    await asyncio.gather(*(beat(number) for number in range(10)), cordon(), *(beat(number) for number in range(10)))
    after = await host_named(store, "a")
    assert (after.cordoned, after.version) == (True, 22)


async def test_a_cordon_of_an_older_version_is_refused(store: Store) -> None:
    await add_hosts(store, "a")
    with pytest.raises(VersionMismatch):
        async with store.transaction() as tx:
            await tx.set_cordon("a", cordoned=True, at_ms=1, expected_version=7)
    with pytest.raises(NotFound):
        async with store.transaction() as tx:
            await tx.set_cordon("b", cordoned=True, at_ms=1, expected_version=None)


async def test_the_dead_are_gone_and_their_names_are_free(store: Store) -> None:
    [first] = await add_hosts(store, "a")
    async with store.transaction() as tx:
        deleted = await tx.delete_host("a", at_ms=NOW_MS, expected_version=1)
    assert (deleted.id, deleted.name, deleted.version) == (first, "a", 2)
    assert await store.host("a") is None
    assert await store.hosts_by_id([first]) == []
    assert [chunk async for chunk in store.all_hosts()] == []
    [second] = await add_hosts(store, "a")
    assert second > first
    with pytest.raises(NotFound):
        async with store.transaction() as tx:
            await tx.change_host(host("a", id=first), expected_version=None)


async def test_old_results_still_show_a_dead_host(store: Store) -> None:
    [host_id] = await add_hosts(store, respecified(host("a"), address="10.0.0.7"))
    await add_tasks(store, [task(1, host_id=host_id)])
    async with store.transaction() as tx:
        await tx.delete_host("a", at_ms=NOW_MS, expected_version=None)
    found = await store.task(task(1).id)
    assert found is not None
    assert (found.host, found.address) == ("a", "10.0.0.7")


async def test_a_host_in_use_is_not_deleted(store: Store) -> None:
    [host_id] = await add_hosts(store, "a")
    shape_id = await intern(store)
    async with store.transaction() as tx:
        assert not await tx.take_room([RoomChange(host_id, {"cpu": 1, "vms": 1}, 1)])
        await tx.add_instances([instance(1, shape_id=shape_id, host_id=host_id)])
    with pytest.raises(Conflict) as caught:
        async with store.transaction() as tx:
            await tx.delete_host("a", at_ms=1, expected_version=None)
    assert caught.value.error_code == "host_in_use"
    async with store.transaction() as tx:
        await tx.remove_instances([instance(1).id], at_ms=1)
        await tx.give_room([RoomChange(host_id, {"cpu": 1, "vms": 1}, 1)])
        await tx.delete_host("a", at_ms=1, expected_version=None)
    assert await store.host("a") is None


async def test_nothing_is_placed_on_a_host_that_goes_at_the_same_time(store: Store) -> None:
    [host_id] = await add_hosts(store, "a")

    async def place() -> bool:
        async with store.transaction() as tx:
            return not await tx.take_room([RoomChange(host_id, {"cpu": 1}, 1)])

    async def delete() -> bool:
        try:
            async with store.transaction() as tx:
                await tx.delete_host("a", at_ms=1, expected_version=None)
        except (Conflict, RetryTransaction):
            return False
        return True

    placed, deleted = await asyncio.gather(place(), delete())
    assert placed != deleted


async def test_the_hosts_of_a_pool_are_seen_inside_the_transaction(store: Store) -> None:
    await add_hosts(store, host("b", pool="p"), host("a", pool="p"), "c")
    async with store.transaction() as tx:
        await tx.add_hosts([host("aa", pool="p")])
        assert [one.name for one in await tx.hosts_of_pool("p")] == ["a", "aa", "b"]
        assert await tx.hosts_of_pool("none") == []


async def test_custom_dimensions_are_bounded(store: Store) -> None:
    many = {f"d{number}": 1 for number in range(CUSTOM_DIMENSIONS_MAX)}
    await add_hosts(store, host("a", custom=many))
    with pytest.raises(InvalidRequest, match="'one-more'") as caught:
        await add_hosts(store, host("b", custom={"one-more": 1}))
    assert caught.value.error_code == "too_many_dimensions"
    await add_hosts(store, host("c", custom={"d3": 9}))


async def test_a_dimension_of_a_transaction_that_failed_is_forgotten(store: Store) -> None:
    async with undone(store) as tx:
        await tx.add_hosts([host("a", custom={"never": 5})])
    [host_id] = await add_hosts(store, host("b", custom={"licences": 5}))
    async with store.transaction() as tx:
        assert await tx.take_room([RoomChange(host_id, {"never": 1}, 1)]) == {host_id}
    async with store.transaction() as tx:
        assert await tx.take_room([RoomChange(host_id, {"licences": 2}, 1)]) == frozenset()
    assert (await host_named(store, "b")).used == {"licences": 2}


@pytest.mark.service("postgresql")
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_a_dimension_that_another_process_made_is_learnt(store: Store, another: OpenAnother) -> None:
    other = await another()
    [host_id] = await add_hosts(other, host("a", custom={"licences": 5}))
    async with store.transaction() as tx:
        assert await tx.take_room([RoomChange(host_id, {"licences": 2}, 1)]) == frozenset()
    assert (await host_named(store, "a")).used == {"licences": 2}
    third = await another()
    assert (await host_named(third, "a")).used == {"licences": 2}


async def test_instances_are_counted_where_they_are(store: Store) -> None:
    [host_id] = await add_hosts(store, "a")
    shape_id = await intern(store)
    async with store.transaction() as tx:
        await tx.take_room([RoomChange(host_id, {"cpu": 2000, "vms": 2}, 2)])
    await add_instances(store, [instance(number, shape_id=shape_id, host_id=host_id) for number in (1, 2)])
    found = await host_named(store, "a")
    assert (found.instances, found.used) == (2, {"cpu": 2000, "vms": 2})
