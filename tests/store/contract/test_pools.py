"""Pools: explicit settings, and names that hosts use."""

import pytest
from tests.store.builders import add_hosts

from virtflow.model.errors import NotFound, VersionMismatch
from virtflow.model.pool import Pool, PoolSpec
from virtflow.store.contract import Store
from virtflow.testing.builders import host


async def put(store: Store, spec: PoolSpec, *, at_ms: int = 5, expected_version: int | None = None) -> Pool:
    async with store.transaction() as tx:
        return await tx.put_pool(spec, at_ms=at_ms, expected_version=expected_version)


async def test_a_pool_nobody_names_is_none(store: Store) -> None:
    assert await store.pool("default") is None
    assert await store.pools() == []


async def test_hosts_make_pools_by_naming_them(store: Store) -> None:
    await add_hosts(store, host("a", pool="b"), host("b", pool=""), host("c", pool="b"))
    assert [(pool.name, pool.explicit, pool.version) for pool in await store.pools()] == [
        ("", False, 0),
        ("b", False, 0),
    ]
    assert await store.pool("b") == Pool(spec=PoolSpec(name="b"), explicit=False, version=0)
    async with store.transaction() as tx:
        await tx.delete_host("b", at_ms=1, expected_version=None)
    assert await store.pool("") is None


async def test_settings_are_kept_and_versioned(store: Store) -> None:
    spec = PoolSpec(name="gold", overcommit={"cpu": 2.5}, strategy="spread", accepts_work=False)
    first = await put(store, spec)
    assert first == Pool(spec=spec, version=1, created_ms=5, updated_ms=5) == await store.pool("gold")
    second = await put(store, PoolSpec(name="gold"), at_ms=9, expected_version=1)
    assert second == Pool(spec=PoolSpec(name="gold"), version=2, created_ms=5, updated_ms=9) == await store.pool("gold")
    with pytest.raises(VersionMismatch) as caught:
        await put(store, spec, expected_version=1)
    assert caught.value.current_version == 2


async def test_an_implicit_pool_has_version_zero(store: Store) -> None:
    await add_hosts(store, host("a", pool="gold"))
    with pytest.raises(VersionMismatch):
        await put(store, PoolSpec(name="gold"), expected_version=1)
    assert (await put(store, PoolSpec(name="gold"), expected_version=0)).version == 1
    assert [pool.explicit for pool in await store.pools()] == [True]


async def test_deleting_forgets_the_settings_alone(store: Store) -> None:
    await add_hosts(store, host("a", pool="gold"))
    made = await put(store, PoolSpec(name="gold", strategy="pack"))
    with pytest.raises(VersionMismatch):
        async with store.transaction() as tx:
            await tx.delete_pool("gold", expected_version=7)
    async with store.transaction() as tx:
        assert await tx.delete_pool("gold", expected_version=1) == made
    assert await store.pool("gold") == Pool(spec=PoolSpec(name="gold"), explicit=False, version=0)
    with pytest.raises(NotFound):
        async with store.transaction() as tx:
            await tx.delete_pool("gold", expected_version=None)
