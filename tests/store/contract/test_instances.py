"""Instances: names, binding, removal, lists."""

import asyncio
import secrets

import pytest
from tests.store.builders import NOW_MS, add_hosts, add_instances, instance, intern, key

from virtflow.model.instance import Instance, Kind, Status
from virtflow.model.names import derived_vm_name, id_from_text
from virtflow.store.contract import (
    Bind,
    IdsTaken,
    InstanceFilter,
    NamesTaken,
    Removed,
    RetryTransaction,
    Store,
)
from virtflow.testing.builders import shape


async def test_an_instance_comes_back_as_it_was_written(store: Store) -> None:
    [host_id] = await add_hosts(store, "a")
    written = Instance(
        id=key(1),
        shape_id=await intern(store),
        kind=Kind.REPLICA,
        given_name="web-1",
        status=Status.RUNNING,
        host_id=host_id,
        generation=3,
        observed_generation=2,
        version=7,
        fence=4,
        created_ms=NOW_MS,
        placed_ms=NOW_MS + 1,
        host="a",
        address="",
    )
    await add_instances(store, [written])
    assert await store.instance(key(1)) == written == await store.instance_by_name("web-1")
    assert await store.instance(key(2)) is None
    assert await store.instance_by_name("web-2") is None


async def test_a_derived_name_leads_back_to_its_instance(store: Store) -> None:
    theirs = id_from_text("order-17")
    await add_instances(store, [instance(1), instance(2, id=theirs)])
    for one in (key(1), theirs):
        found = await store.instance_by_name(derived_vm_name(one))
        assert found is not None
        assert (found.id, found.given_name, found.name) == (one, None, derived_vm_name(one))


async def test_giving_the_derived_name_is_giving_none(store: Store) -> None:
    await add_instances(store, [instance(1, given_name=derived_vm_name(key(1)))])
    found = await store.instance_by_name(derived_vm_name(key(1)))
    assert found is not None
    assert found.given_name is None


async def test_a_named_instance_does_not_answer_to_its_derived_name(store: Store) -> None:
    await add_instances(store, [instance(1, given_name="web")])
    assert await store.instance_by_name(derived_vm_name(key(1))) is None


async def test_exactly_the_clashing_names_are_told(store: Store) -> None:
    await add_instances(store, [instance(1, given_name="a"), instance(2, given_name="b"), instance(3)])
    batch = [instance(10 + number, given_name=name) for number, name in enumerate("xaybz")] + [instance(20)]
    with pytest.raises(NamesTaken) as caught:
        await add_instances(store, batch)
    assert caught.value.names == {"a", "b"}
    assert len(await store.instances(InstanceFilter(), limit=99)) == 3


async def test_after_a_clash_the_transaction_may_go_on_without_it(store: Store) -> None:
    await add_instances(store, [instance(1, given_name="a")])
    async with store.transaction() as tx:
        with pytest.raises(NamesTaken):
            await tx.add_instances([instance(2, given_name="a"), instance(3, given_name="b")])
        await tx.add_instances([instance(3, given_name="b")])
    assert [one.name for one in await store.instances(InstanceFilter(), limit=9)] == ["a", "b"]


async def test_names_that_occur_twice_in_a_batch_clash(store: Store) -> None:
    with pytest.raises(NamesTaken) as caught:
        await add_instances(
            store, [instance(1, given_name="a"), instance(2, given_name="b"), instance(3, given_name="a")]
        )
    assert caught.value.names == {"a"}


async def test_a_name_that_spells_the_id_of_another_is_refused(store: Store) -> None:
    misleading = derived_vm_name(key(2))
    with pytest.raises(NamesTaken) as caught:
        await add_instances(store, [instance(1, given_name=misleading), instance(3)])
    assert caught.value.names == {misleading}


async def test_ids_in_use_clash(store: Store) -> None:
    await add_instances(store, [instance(1), instance(2)])
    with pytest.raises(IdsTaken) as caught:
        await add_instances(store, [instance(2), instance(3)])
    assert caught.value.ids == {key(2)}


async def test_one_name_from_many_sides_at_once(store: Store) -> None:
    async def claim(number: int) -> bool:
        try:
            await add_instances(store, [instance(number, given_name="only")])
        except (NamesTaken, RetryTransaction):
            return False
        return True

    assert sum(await asyncio.gather(*(claim(number) for number in range(20)))) == 1


async def test_a_name_is_free_again_after_its_removal(store: Store) -> None:
    shape_id = await intern(store)
    await add_instances(store, [instance(1, given_name="a", shape_id=shape_id)])
    async with store.transaction() as tx:
        await tx.remove_instances([key(1)], at_ms=1)
        await tx.add_instances([instance(2, given_name="a", shape_id=shape_id)])
    found = await store.instance_by_name("a")
    assert found is not None
    assert found.id == key(2)


async def test_binding_gives_a_host_once(store: Store) -> None:
    [a, b] = await add_hosts(store, "a", "b")
    await add_instances(store, [instance(1), instance(2), instance(3, host_id=b)])
    async with store.transaction() as tx:
        lost = await tx.bind_instances([Bind(key(number), a, NOW_MS) for number in (1, 2, 3, 4)], fence=9)
    assert lost == {key(3), key(4)}
    bound, kept = await store.instance(key(1)), await store.instance(key(3))
    assert bound is not None
    assert kept is not None
    assert (bound.host, bound.placed_ms, bound.fence, bound.version) == ("a", NOW_MS, 9, 2)
    assert (kept.host, kept.fence, kept.version) == ("b", 0, 1)
    async with store.transaction() as tx:
        assert await tx.bind_instances([Bind(key(1), b, NOW_MS)], fence=9) == {key(1)}
        assert await tx.bind_instances([], fence=9) == frozenset()


async def test_removal_tells_what_was_held(store: Store) -> None:
    [a] = await add_hosts(store, "a")
    shape_id = await intern(store, shape(cores=3))
    await add_instances(store, [instance(1, host_id=a, shape_id=shape_id), instance(2, shape_id=shape_id)])
    async with store.transaction() as tx:
        removed = await tx.remove_instances([key(2), key(1), key(9)], at_ms=1)
    assert removed == [
        Removed(instance=instance(1, host_id=a, host="a", address="", shape_id=shape_id), shape=shape(cores=3)),
        Removed(instance=instance(2, shape_id=shape_id), shape=shape(cores=3)),
    ]
    assert await store.instances(InstanceFilter(), limit=9) == []
    async with store.transaction() as tx:
        assert await tx.remove_instances([key(1)], at_ms=1) == []
        assert await tx.remove_instances([], at_ms=1) == []


async def test_deleted_names_are_remembered(store: Store) -> None:
    shape_id = await intern(store)
    theirs = id_from_text("order-17")
    rows = [instance(1, given_name="web"), instance(2), instance(3, id=theirs), instance(4)]
    await add_instances(store, [Instance(id=one.id, shape_id=shape_id, given_name=one.given_name) for one in rows])
    async with store.transaction() as tx:
        await tx.remove_instances([key(1), key(2), theirs], at_ms=1)
    names = ["web", derived_vm_name(key(2)), derived_vm_name(theirs), derived_vm_name(key(4)), "never"]
    assert [await store.was_deleted(name) for name in names] == [True, True, True, False, False]


async def test_an_instance_is_removed_once_by_whoever_is_first(store: Store) -> None:
    shape_id = await intern(store)
    await add_instances(store, [instance(number, shape_id=shape_id) for number in range(20)])

    async def remove() -> int:
        async with store.transaction() as tx:
            return len(await tx.remove_instances([key(number) for number in range(20)], at_ms=1))

    assert sum(await asyncio.gather(*(remove() for _ in range(5)))) == 20


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        (InstanceFilter(), [1, 2, 3, 4]),
        (InstanceFilter(host="a"), [1, 3]),
        (InstanceFilter(host="a", placed=True), [1, 3]),
        (InstanceFilter(host="a", placed=False), []),
        (InstanceFilter(host="nobody"), []),
        (InstanceFilter(placed=False), [4]),
        (InstanceFilter(placed=True), [1, 2, 3]),
        (InstanceFilter(pool="gold"), [2, 3]),
        (InstanceFilter(pool="gold", host="a"), [3]),
        (InstanceFilter(pool="gold", placed=False), []),
        (InstanceFilter(status=Status.RUNNING), [2]),
        (InstanceFilter(status=Status.PENDING, placed=False), [4]),
        (InstanceFilter(status=Status.PENDING, host="a"), [1, 3]),
    ],
)
async def test_filters_of_the_list_are_combined(store: Store, where: InstanceFilter, numbers: list[int]) -> None:
    [a, b] = await add_hosts(store, "a", "b")
    plain, gold = await intern(store, shape()), await intern(store, shape(pool="gold"))
    await add_instances(
        store,
        [
            instance(4, shape_id=plain),
            instance(3, shape_id=gold, host_id=a),
            instance(2, shape_id=gold, host_id=b, status=Status.RUNNING),
            instance(1, shape_id=plain, host_id=a),
        ],
    )
    assert [one.id for one in await store.instances(where, limit=10)] == [key(number) for number in numbers]
    pages = [await store.instances(where, after=key(number - 1), limit=1) for number in numbers]
    assert [page[0].id for page in pages] == [key(number) for number in numbers]


async def test_a_scan_sees_everything_as_it_was_at_its_beginning(store: Store) -> None:
    shape_id = await intern(store, shape(cores=7))
    ids = sorted(secrets.token_bytes(16) for _ in range(1_500))
    await add_instances(store, [instance(0, id=one, shape_id=shape_id) for one in ids])
    seen: list[bytes] = []
    async for chunk in store.scan_instances():
        if not seen:
            await add_instances(store, [instance(0, id=b"\xff" * 16, shape_id=shape_id)])
        assert {one.shape for one in chunk} == {shape(cores=7)}
        seen += [one.instance.id for one in chunk]
    assert seen == ids
