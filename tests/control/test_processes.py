"""Who is there: several processes on one database, and what each of them holds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import pytest

from virtflow.control import processes
from virtflow.control.clock import SystemClock
from virtflow.control.mirror import Mirror
from virtflow.control.presence import Presence
from virtflow.control.processes import Processes
from virtflow.control.self_hosts import SelfHosts
from virtflow.election.alone import Alone
from virtflow.engine.fleet import Fleet
from virtflow.model.health import Status, Unwell
from virtflow.model.process import Process, ProcessView
from virtflow.store.contract import Store
from virtflow.store.open import open_store
from virtflow.testing.election import Assembly

WITHIN_S = 30.0


def process(name: str, *, started_ms: int = 1) -> Process:
    return Process(id=name, node="bm-1", roles=("scheduler",), address="", version="1", started_ms=started_ms)


class Here(NamedTuple):
    """A process that says that it is here."""

    store: Store
    processes: Processes
    presence: Presence

    async def sees(self, holds: Callable[[dict[str, ProcessView]], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not holds({view.process.id: view for view in await self.processes.list()}):
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def present(
    url: str, name: str, *, started_ms: int = 1, unwell: Callable[[], tuple[Unwell, ...]] = tuple
) -> AsyncIterator[Here]:
    store = open_store(url, origin=name)
    await store.open()
    me = process(name, started_ms=started_ms)
    mirror = Mirror(Fleet("least_loaded"), SelfHosts())
    here = Here(
        store,
        Processes(store=store, clock=SystemClock(), me=me, elections=()),
        Presence(me, store=store, mirror=mirror, changed=lambda: None, unwell=unwell, beat_s=3600),
    )
    saying = asyncio.create_task(here.presence.run())
    try:
        yield here
    finally:
        saying.cancel()
        await asyncio.wait({saying})
        await store.close()


@pytest.mark.service("postgresql")
async def test_processes_see_each_other_the_oldest_first_and_who_said_goodbye(postgresql_url: str) -> None:
    async with present(postgresql_url, "late", started_ms=9) as late:
        async with present(postgresql_url, "early", started_ms=1) as early:
            await late.sees(lambda seen: [*seen] == ["early", "late"])
            assert [view.state for view in await early.processes.list()] == ["here", "here"]
        await late.sees(lambda seen: seen["early"].state == "stopped")
        assert [view.state for view in await late.processes.list()] == ["stopped", "here"]


@pytest.mark.service("postgresql")
async def test_whose_name_stands_in_a_lease_holds_the_office(postgresql_url: str) -> None:
    async with present(postgresql_url, "one") as one, present(postgresql_url, "two") as two:
        await two.sees(lambda seen: len(seen) == 2)
        await one.store.take_lease("scheduler", holder="one", seen=None)
        await one.store.note_lease("relay", holder="two", term=7)
        views = await two.processes.list()
        assert [[(lease.office, lease.term) for lease in view.leases] for view in views] == [
            [("scheduler", 1)],
            [("relay", 7)],
        ]


@pytest.mark.service("postgresql")
async def test_others_see_what_is_wrong_with_a_process_until_it_is_gone(postgresql_url: str) -> None:
    broker = Unwell(part="broker", status=Status.DEGRADED, since_ms=7, cause="away", remedy="start it")
    async with present(postgresql_url, "one") as one:
        async with present(postgresql_url, "two", unwell=lambda: (broker,)):
            await one.sees(lambda seen: "two" in seen)
            views = {view.process.id: view for view in await one.processes.list()}
            assert (views["one"].health, views["two"].health) == (Status.OK, Status.DEGRADED)
            assert views["two"].process.unwell == (broker,)
        await one.sees(lambda seen: seen["two"].health is None)


@pytest.mark.service("postgresql")
async def test_an_address_is_told_at_once(postgresql_url: str) -> None:
    async with present(postgresql_url, "one") as one:
        one.presence.listens_at("http://bm-1:8080")
        await one.sees(lambda seen: "one" in seen and seen["one"].process.address == "http://bm-1:8080")


@pytest.mark.service("postgresql")
async def test_who_says_nothing_is_silent(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SILENT_S", 0.3)
    async with present(postgresql_url, "one") as one:
        await one.sees(lambda seen: "one" in seen and seen["one"].state == "silent")


async def test_who_is_alone_writes_nothing_and_lists_itself() -> None:
    store = open_store("sqlite://")
    await store.open()
    elections = [Alone("scheduler"), Assembly("relay").candidate()]
    await elections[0].campaign()
    here = Processes(store=store, clock=SystemClock(), me=process("one"), elections=elections)
    here.listens_at("http://127.0.0.1:8080")
    [view] = await here.list()
    assert [(lease.office, lease.term) for lease in view.leases] == [("scheduler", 1)]
    assert (view.state, view.process.address) == ("here", "http://127.0.0.1:8080")
    assert await store.processes() == []
    await store.close()
