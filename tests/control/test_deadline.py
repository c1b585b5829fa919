"""A database that hangs or ends its sessions: whoever asks is answered in time, and work goes on by itself."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.control.conftest import config, host, order
from tests.control.test_cluster import soon, violations
from tests.control.test_schedule import create, register

from virtflow.control import answers, inbox
from virtflow.control.orders import Receipt, VmOrder
from virtflow.main import Service, build
from virtflow.model.errors import Conflict, OutcomeUnknown, Unavailable, VirtflowError
from virtflow.model.views import VmView
from virtflow.store.postgres import PostgresStore
from virtflow.testing.postgres import PostgresServer
from virtflow.testing.proxy import Proxy, proxy

pytestmark = pytest.mark.service("postgresql")

ANSWER_S = 0.6
#: a busy machine
GRACE_S = 3.0


@pytest.fixture
async def between(postgresql: PostgresServer) -> AsyncIterator[Proxy]:
    async with proxy(postgresql.port) as one:
        yield one


@pytest.fixture
async def service(
    postgresql: PostgresServer, postgresql_url: str, between: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Service]:
    monkeypatch.setattr(inbox, "ANSWER_S_MAX", ANSWER_S)
    monkeypatch.setattr(answers, "ANSWER_S_MAX", ANSWER_S)
    # a store that is more patient than whoever asks
    store = PostgresStore(postgresql.url("virtflow", port=between.port), origin="far", statement_s=2.0, connect_s=1.0)
    service = build(config(tmp_path / "unused.db", database_url=postgresql_url), store=store, inventories=[])
    async with service.running():
        await register(service, host("bm-1", cores=500))
        yield service
        between.flow()
    assert await violations(postgresql_url) == []


async def outcomes(service: Service, names: list[str]) -> list[list[VmView] | BaseException]:
    return await asyncio.gather(*(create(service, order(name)) for name in names), return_exceptions=True)


async def is_well(service: Service) -> bool:
    return (await service.house.health.check()).ok


async def test_orders_are_answered_in_time_while_the_database_hangs(service: Service, between: Proxy) -> None:
    between.stall()
    began_s = time.monotonic()
    first = asyncio.create_task(outcomes(service, ["a"]))
    await asyncio.sleep(0.1)  # it is in a round now, and those who come later wait behind it
    later = await outcomes(service, [f"b-{n}" for n in range(20)])
    assert time.monotonic() - began_s < 0.1 + ANSWER_S + 0.5 + GRACE_S
    assert all(isinstance(one, Unavailable) for one in [*await first, *later])
    between.flow()
    await soon(lambda: is_well(service))
    async with asyncio.timeout(10):
        while True:
            try:
                assert (await create(service, order("after")))[0].instance.host == "bm-1"
                break
            except Unavailable:
                await asyncio.sleep(0.05)


async def test_what_no_round_has_taken_is_certainly_not_done(service: Service, between: Proxy) -> None:
    async with service.scheduler.hold_still():
        with pytest.raises(Unavailable, match="nothing was done") as caught:
            await create(service, order("never"))
    assert not isinstance(caught.value, OutcomeUnknown)
    await create(service, order("after"))
    with pytest.raises(VirtflowError, match="no VM never"):
        await service.house.vms.get("never")


async def test_what_a_round_has_taken_is_unknown_and_its_key_tells(service: Service, between: Proxy) -> None:
    key: Receipt[list[VmView]] = Receipt(principal="", key="k", request_hash=b"h", render=lambda views: (202, b"", ()))
    asked = VmOrder(shape=order().shape, name="once")

    async def ask(*, stalling: bool = False) -> bool:
        """Whether it was answered as before."""
        async with service.house.answers.claim("", "k", b"h") as former:
            if stalling:
                between.stall()
            if former is None:
                await service.house.vms.create([asked], together=False, actor="test", receipt=key)
            return former is not None

    with pytest.raises(OutcomeUnknown):
        await ask(stalling=True)
    with pytest.raises(Conflict, match="being created by another request"):
        await create(service, order("once"))  # the name is kept meanwhile
    again = asyncio.create_task(ask())
    await asyncio.sleep(0.05)
    between.flow()
    async with asyncio.timeout(10):
        was_answered = await again
    found = (await service.house.vms.get("once")).instance
    assert found.host == "bm-1"
    assert await ask(), was_answered


async def test_a_second_request_of_a_key_waits_for_the_first_but_not_for_ever(service: Service) -> None:
    async with service.house.answers.claim("", "k", b"h"):
        with pytest.raises(Conflict) as caught:
            async with service.house.answers.claim("", "k", b"h"):
                raise AssertionError
    assert caught.value.error_code == "idempotency_key_in_use"


async def test_reads_and_other_writes_are_given_up_in_time(service: Service, between: Proxy) -> None:
    between.stall()
    began_s = time.monotonic()
    results = await asyncio.gather(
        service.house.vms.get("a"),
        service.house.hosts.get("bm-1"),
        service.house.hosts.cordon("bm-1", cordoned=True, expected_version=None, actor="test"),
        service.house.vms.delete("a", expected_version=None, actor="test"),
        service.house.summary.fleet(),
        return_exceptions=True,
    )
    assert all(isinstance(result, Unavailable) for result in results), results
    assert time.monotonic() - began_s < 1.0 + 2.0 + 0.5 + GRACE_S  # connection, statement, margin


async def test_metrics_of_the_process_are_read_while_the_database_is_away(
    service: Service, between: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("virtflow.control.metrics.FLEET_S_MAX", 0.2)
    assert b"virtflow_database_up 1.0" in await service.house.metrics.text()
    between.stall()
    text = await service.house.metrics.text()
    assert b"virtflow_database_up 0.0" in text
    assert b"virtflow_hosts{" not in text
    assert b"virtflow_scheduler_up" in text


async def test_sessions_that_the_server_ends_under_load_cost_nobody_anything(
    service: Service, postgresql: PostgresServer
) -> None:
    """F8: whoever was in the middle is rolled back; a client who repeats loses nothing."""
    made: list[str] = []
    stop = asyncio.Event()

    async def work(who: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            name = f"vm-{who}-{number}"
            while True:
                try:
                    await create(service, order(name))
                except Conflict:  # an earlier try, whose answer was lost
                    pass
                except Unavailable:
                    await asyncio.sleep(0.01)
                    continue
                made.append(name)
                break

    workers = [asyncio.create_task(work(who)) for who in range(4)]
    for _ in range(20):
        before = len(made)
        await postgresql.run(
            "virtflow", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'virtflow'"
        )
        await soon(lambda at=before: len(made) > at + 4)  # type: ignore[misc]
    stop.set()
    await asyncio.gather(*workers)
    for name in made:
        assert (await service.house.vms.get(name)).instance.name == name
    await soon(lambda: is_well(service))
