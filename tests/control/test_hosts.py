"""Hosts and pools: the row, the mirror and the events say the same, and nobody's change is lost."""

import asyncio

import msgspec
import pytest
from tests.control.conftest import host, order, wish
from tests.control.test_schedule import create, register, until_placed

from virtflow.main import Service
from virtflow.model.errors import Conflict, NotFound, VersionMismatch
from virtflow.model.pool import PoolSpec
from virtflow.store.contract import EventFilter


async def test_registering_is_all_or_nothing(service: Service) -> None:
    await register(service, host("bm-1"))
    with pytest.raises(Conflict, match="bm-1"):
        await register(service, host("bm-0"), host("bm-1"))
    with pytest.raises(NotFound):
        await service.house.hosts.get("bm-0")


async def test_allocatable_is_capacity_times_ratio_minus_reserved(service: Service) -> None:
    await service.house.pools.put(
        PoolSpec(name="default", overcommit={"cpu": 4.0, "memory": 1.5}), expected_version=None, actor="test"
    )
    await register(service, host("bm-1", cores=8, memory_gib=32, overcommit={"memory": 1.0}, reserved={"cpu": 2000}))
    row = await service.house.hosts.get("bm-1")
    assert row.total["cpu"] == 32_000
    assert row.allocatable["cpu"] == 30_000
    assert row.allocatable["memory"] == 32 * 1024


async def test_a_pool_that_changes_its_ratio_changes_the_room_of_its_hosts(service: Service) -> None:
    await register(service, host("bm-1", cores=1))
    await create(service, order("a"), order("b"))
    assert (await service.house.vms.get("b")).instance.host is None
    await service.house.pools.put(PoolSpec(name="default", overcommit={"cpu": 2}), expected_version=None, actor="test")
    assert (await until_placed(service, "b")).host == "bm-1"
    await service.house.pools.delete("default", expected_version=None, actor="test")
    row = await service.house.hosts.get("bm-1")
    assert (row.allocatable["cpu"], row.used["cpu"]) == (1000, 2000)


async def test_a_shrunken_host_keeps_its_vms_and_takes_no_more(service: Service) -> None:
    """Orchard 28 [bug]: an over-committed worker showed near-infinite room."""
    await register(service, host("bm-1", cores=4))
    await create(service, *(order(f"vm-{n}") for n in range(4)))
    await service.house.hosts.change(
        "bm-1",
        lambda spec: msgspec.structs.replace(spec, capacity={**spec.capacity, "cpu": 2000}),
        expected_version=None,
        actor="test",
    )
    await create(service, order("one-more"))
    assert (await service.house.vms.get("one-more")).instance.host is None
    await service.house.vms.delete("vm-0", expected_version=None, actor="test")
    await asyncio.sleep(0.05)
    assert (await service.house.vms.get("one-more")).instance.host is None


async def test_a_pool_that_accepts_no_work_gets_none(service: Service) -> None:
    await register(service, host("bm-1"))
    await service.house.pools.put(PoolSpec(name="default", accepts_work=False), expected_version=None, actor="test")
    await create(service, order("waits"))
    assert (await service.house.vms.get("waits")).instance.host is None
    await service.house.pools.put(PoolSpec(name="default"), expected_version=None, actor="test")
    await until_placed(service, "waits")


async def test_the_strategy_of_a_pool_is_followed(service: Service) -> None:
    await register(service, host("bm-1"), host("bm-2"))
    await service.house.pools.put(PoolSpec(name="default", strategy="best_fit"), expected_version=None, actor="test")
    views = await create(service, *(order() for _ in range(4)))
    assert len({view.instance.host for view in views}) == 1
    spread = await create(service, order(want=wish(strategy="least_loaded")))
    assert spread[0].instance.host != views[0].instance.host


async def test_a_change_names_the_version_it_saw(service: Service) -> None:
    await register(service, host("bm-1"))
    changed, created = await service.house.hosts.replace(host("bm-1", cores=16), expected_version=1, actor="test")
    assert (changed.version, created) == (2, False)
    with pytest.raises(VersionMismatch) as caught:
        await service.house.hosts.replace(host("bm-1", cores=4), expected_version=1, actor="test")
    assert caught.value.current_version == 2


async def test_a_cordon_survives_every_other_write(service: Service) -> None:
    """Orchard 2.1 [bug]: the heartbeat wrote the whole record back and undid a pause set in between."""
    await register(service, host("bm-1"))
    await asyncio.gather(
        *(
            service.house.hosts.change(
                "bm-1",
                lambda spec, n=n: msgspec.structs.replace(spec, model=f"m{n}"),  # type: ignore[misc]
                expected_version=None,
                actor="test",
            )
            for n in range(3)
        ),
        service.house.hosts.cordon("bm-1", cordoned=True, expected_version=None, actor="test"),
    )
    assert (await service.house.hosts.get("bm-1")).cordoned


async def test_cordoning_twice_changes_and_tells_once(service: Service) -> None:
    await register(service, host("bm-1"))
    for _ in range(2):
        row = await service.house.hosts.cordon("bm-1", cordoned=True, expected_version=None, actor="test")
    assert row.version == 2
    page = await service.house.events.read(EventFilter(types=("host.cordoned",)), after=0, limit=10)
    assert len(page.items) == 1


async def test_a_host_with_vms_is_not_deleted(service: Service) -> None:
    await register(service, host("bm-1"))
    view = (await create(service, order("web-1")))[0]
    with pytest.raises(Conflict, match="bm-1"):
        await service.house.hosts.delete("bm-1", expected_version=None, actor="test")
    await service.house.vms.delete("web-1", expected_version=None, actor="test")
    await service.house.hosts.delete("bm-1", expected_version=None, actor="test")
    assert (await service.house.tasks.get(view.task_id)).task.host == "bm-1"


async def test_pool_empty_string_is_a_pool_of_its_own(service: Service) -> None:
    await register(service, host("bm-1", pool=""), host("bm-2", pool="general"))
    assert (await create(service, order(want=wish(pool=""))))[0].instance.host == "bm-1"
    assert (await create(service, order(want=wish(pool="general"))))[0].instance.host == "bm-2"
