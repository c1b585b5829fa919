"""Inventories: the last good answer stays in force, bad records hurt nobody else, nothing is dropped silently."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest
from tests.control.conftest import config, host, order
from tests.control.test_schedule import create

from virtflow.inventory import Fetched, FoundHost, UsageMode
from virtflow.main import Service, build
from virtflow.model.errors import Unavailable
from virtflow.model.host import HostSpec, Source
from virtflow.store.contract import EventFilter, HostFilter

Start = Callable[..., AbstractAsyncContextManager[Service]]


class Told:
    """An inventory that says what the test tells it to say."""

    source = Source.HTTP
    location = "http://inventory.test/nodes"

    def __init__(self, *hosts: HostSpec) -> None:
        self.answer: Fetched | Exception = Fetched(hosts=tuple(FoundHost(spec) for spec in hosts))

    async def fetch(self) -> Fetched:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def changes(self) -> AsyncIterator[None]:
        return
        yield

    def say(self, *hosts: HostSpec) -> None:
        self.answer = Fetched(hosts=tuple(FoundHost(spec) for spec in hosts))


@pytest.fixture
def told() -> Told:
    return Told(host("bm-1"), host("bm-2"))


@pytest.fixture
async def service(tmp_path: Path, told: Told) -> AsyncIterator[Service]:
    service = build(config(tmp_path / "virtflow.db"), inventories=[told])
    async with service.running():
        await service.inventories.refresh_all()
        yield service


async def names(service: Service, **where: object) -> dict[str, bool]:
    rows = await service.house.hosts.list(HostFilter(**where), after="", limit=100)  # type: ignore[arg-type]
    return {row.name: row.is_schedulable for row in rows}


async def test_hosts_come_from_the_inventory(service: Service) -> None:
    assert await names(service) == {"bm-1": True, "bm-2": True}
    report = service.inventories.report()[0]
    assert (report.state, report.hosts, report.last_error) == ("fresh", 2, None)


@pytest.mark.parametrize("answer", [Unavailable("connection refused"), Fetched(), ValueError("boom")])
async def test_a_failed_or_empty_fetch_keeps_the_last_good_answer(
    service: Service, told: Told, answer: Fetched | Exception
) -> None:
    """virtflow 16 [bug]: one failed fetch replaced the cache by nothing, or killed the refresher."""
    told.answer = answer
    await service.inventories.refresh_all()
    assert await names(service) == {"bm-1": True, "bm-2": True}
    report = service.inventories.report()[0]
    assert report.state == "stale"
    assert report.last_error
    assert report.age_s is not None
    assert (await create(service, order()))[0].instance.host is not None


async def test_a_host_that_is_no_longer_listed_is_marked_and_gets_nothing_new(service: Service, told: Told) -> None:
    told.say(host("bm-2"))
    await service.inventories.refresh_all()
    assert await names(service) == {"bm-1": False, "bm-2": True}
    told.say(host("bm-1"), host("bm-2"))
    await service.inventories.refresh_all()
    assert await names(service) == {"bm-1": True, "bm-2": True}
    page = await service.house.events.read(EventFilter(types=("host.missing", "host.returned")), after=0, limit=10)
    assert [event.type.value for event in page.items] == ["host.missing", "host.returned"]


async def test_an_unchanged_answer_writes_nothing(service: Service) -> None:
    before = (await service.house.events.read(EventFilter(), after=0, limit=1)).newest
    await service.inventories.refresh_all()
    assert (await service.house.events.read(EventFilter(), after=0, limit=1)).newest == before


async def test_what_the_source_does_not_say_stays_as_the_operator_set_it(service: Service, told: Told) -> None:
    await service.house.hosts.change(
        "bm-1",
        lambda spec: msgspec.structs.replace(spec, labels={"gpu": "a100"}, overcommit={"cpu": 2.0}),
        expected_version=None,
        actor="test",
    )
    told.say(host("bm-1", cores=16), host("bm-2"))
    await service.inventories.refresh_all()
    row = await service.house.hosts.get("bm-1")
    assert (row.spec.labels, row.spec.overcommit, row.total["cpu"]) == ({"gpu": "a100"}, {"cpu": 2.0}, 32_000)


async def test_a_host_of_the_api_is_not_touched_by_an_inventory(service: Service, told: Told) -> None:
    await service.house.hosts.register([host("mine", cores=4)], actor="test")
    told.say(host("bm-1"), host("bm-2"), host("mine", cores=99))
    await service.inventories.refresh_all()
    row = await service.house.hosts.get("mine")
    assert (row.source, row.spec.capacity["cpu"]) == (Source.API, 4000)


@pytest.mark.parametrize(("usage", "held"), [(UsageMode.FOREIGN, 5000), (UsageMode.IGNORE, 0)])
async def test_use_that_the_inventory_reports_is_held_back(
    tmp_path: Path, told: Told, usage: UsageMode, held: int
) -> None:
    told.answer = Fetched(hosts=(FoundHost(host("bm-1", cores=8), {"cpu": 5000, "vms": 3}),))
    service = build(config(tmp_path / "virtflow.db", inventory_usage=usage.value), inventories=[told])
    async with service.running():
        await service.inventories.refresh_all()
        row = await service.house.hosts.get("bm-1")
    assert row.allocatable["cpu"] == 8000 - held
    assert row.total["cpu"] == 8000


async def test_usage_that_counts_our_own_vms_is_not_counted_twice(tmp_path: Path, told: Told) -> None:
    told.answer = Fetched(hosts=(FoundHost(host("bm-1", cores=8), {}),))
    service = build(config(tmp_path / "virtflow.db", inventory_usage="total"), inventories=[told])
    async with service.running():
        await service.inventories.refresh_all()
        await create(service, order(), order())
        told.answer = Fetched(hosts=(FoundHost(host("bm-1", cores=8), {"cpu": 3000}),))
        await service.inventories.refresh_all()
        row = await service.house.hosts.get("bm-1")
    assert (row.foreign, row.free["cpu"]) == ({"cpu": 1000}, 5000)
