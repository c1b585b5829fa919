"""The courier of a bus: everything arrives in order, over failures of the bus, of the database and of ourselves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.control.conftest import config
from tests.control.test_cluster import soon

from virtflow.control import buses
from virtflow.events import CloudEvent
from virtflow.main import Service, build
from virtflow.main.loops import end
from virtflow.model.errors import NotFound, OutcomeUnknown
from virtflow.model.event import Event, EventType
from virtflow.model.health import Status
from virtflow.model.outlet import OutletMove
from virtflow.model.pool import PoolSpec
from virtflow.store.contract import EventFilter, Transaction
from virtflow.store.open import open_store
from virtflow.testing.election import Assembly
from virtflow.testing.sink import MemorySink


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buses, "RETRY_S", 0.01)
    monkeypatch.setattr(buses, "RETRY_S_MAX", 0.05)


@contextlib.asynccontextmanager
async def relay(url: str, tmp_path: Path, *sinks: MemorySink, **flags: str) -> AsyncIterator[Service]:
    given = {"database_url": url, **flags}
    # the only process there is: the log holds what the test does, and no elections
    service = build(config(tmp_path / "unused.db", **given), store=open_store(url), inventories=[], sinks=sinks)
    async with service.running():
        yield service


async def happen(service: Service, count: int, *, name: str = "a") -> None:
    """So many events of one object, one commit each."""
    for _ in range(count):
        await service.house.pools.put(PoolSpec(name=name), expected_version=None, actor="operator")


async def flood(service: Service, count: int) -> None:
    """So many events in one commit."""
    events = [Event(type=EventType.POOL_CHANGED, kind="pool", id=f"p-{i}", pool=f"p-{i}") for i in range(count)]
    async with service.store.transaction() as tx:
        await tx.append_events(events)


async def newest(service: Service) -> int:
    return (await service.store.event_range())[1]


async def cursor(service: Service, name: str) -> int:
    outlet = await service.store.outlet(name)
    return -1 if outlet is None else outlet.cursor


async def until_told(service: Service, sink: MemorySink, upto: int | None = None) -> None:
    wanted = await newest(service) if upto is None else upto

    async def told() -> bool:
        return await cursor(service, sink.name) >= wanted

    await soon(told)


async def test_a_bus_is_told_of_everything_in_order_and_its_cursor_follows(url: str, tmp_path: Path) -> None:
    sink = MemorySink()
    async with relay(url, tmp_path, sink) as service:
        await happen(service, 5)
        await until_told(service, sink)
        assert sink.numbers == [1, 2, 3, 4, 5]
        view = await service.house.outlets.get("memory")
        assert (view.outlet.kind, view.outlet.enabled, view.outlet.error, view.behind) == ("memory", True, "", 0)
        history_id = await service.store.history_id()
        assert [event.id for event in sink.arrived] == [f"{history_id}-{seq}" for seq in range(1, 6)]
    assert sink.is_closed


async def test_a_new_bus_is_told_of_all_that_is_kept_and_a_known_one_from_where_it_was(
    url: str, tmp_path: Path
) -> None:
    async with relay(url, tmp_path) as service:
        await happen(service, 3)
    first, again = MemorySink(), MemorySink()
    async with relay(url, tmp_path, first) as service:
        await until_told(service, first)
    async with relay(url, tmp_path, again) as service:
        await happen(service, 2)
        await until_told(service, again)
    assert (first.numbers, again.numbers) == ([1, 2, 3], [4, 5])


async def test_a_bus_that_is_away_is_told_later_and_the_other_does_not_wait(url: str, tmp_path: Path) -> None:
    away, here = MemorySink("away"), MemorySink("here")
    away.is_away = True
    async with relay(url, tmp_path, away, here) as service:
        await happen(service, 3)
        await until_told(service, here)
        assert (here.numbers, away.numbers) == ([1, 2, 3], [])
        await soon(lambda: away.calls >= 2)
        view = await service.house.outlets.get("away")
        assert view.outlet.error == "nobody listens there: let it come back"
        assert view.outlet.failing_since_ms is not None
        assert view.behind == 3
        health = await service.house.health.check()
        assert (health.ok, health.status) == (True, Status.DEGRADED)  # it mends itself, and a restart would not help
        assert health.parts["courier away"] == "failing: nobody listens there: let it come back"
        metrics = (await service.house.metrics.text()).decode()
        assert 'virtflow_outlet_up{outlet="away"} 0.0' in metrics
        assert 'virtflow_outlet_lag_events{outlet="away"} 3.0' in metrics
        assert 'virtflow_relay_events_total{outlet="here"} 3.0' in metrics
        away.is_away = False
        await until_told(service, away)
        assert away.numbers == [1, 2, 3]
        view = await service.house.outlets.get("away")
        assert (view.outlet.error, view.outlet.failing_since_ms) == ("", None)

        async def is_well() -> bool:
            return (await service.house.health.check()).parts["courier away"] == "ok"

        await soon(is_well)


async def test_a_bus_that_takes_nothing_is_known_before_there_is_an_event(url: str, tmp_path: Path) -> None:
    away = MemorySink("away")
    away.is_away = True
    async with relay(url, tmp_path, away) as service:

        async def state() -> str:
            return (await service.house.health.check()).parts.get("courier away", "")

        async def fails() -> bool:
            if not (await state()).startswith("failing: nobody listens there"):
                return False
            return bool((await service.house.outlets.get("away")).outlet.error)

        async def is_well() -> bool:
            view = await service.house.outlets.get("away")
            return (await state(), view.outlet.error, view.outlet.failing_since_ms) == ("ok", "", None)

        await soon(fails)
        away.is_away = False
        await soon(is_well)
        assert away.numbers == []


async def test_what_a_failing_bus_took_is_not_sent_again(url: str, tmp_path: Path) -> None:
    sink = MemorySink()
    async with relay(url, tmp_path) as service:
        await flood(service, 10)
    sink.takes = 4
    async with relay(url, tmp_path, sink) as service:
        await until_told(service, sink)
    assert sink.numbers == [*range(1, 11)]
    assert sink.calls == 2


async def test_many_events_go_in_pieces(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buses, "BATCH_MAX", 64)
    sink = MemorySink()
    async with relay(url, tmp_path, sink) as service:
        await flood(service, 1000)
        await until_told(service, sink)
    assert sink.numbers == [*range(1, 1001)]
    assert sink.calls >= 1000 // 64


async def test_what_was_sent_before_the_cursor_moved_comes_again_with_the_same_ids(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = MemorySink()
    async with relay(url, tmp_path, sink) as service:
        writes = type(await open_transaction(service))
        move = writes.move_outlets
        tries = 0

        async def failing_once(self: Transaction, moves: Sequence[object]) -> frozenset[str]:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise OutcomeUnknown("the answer to the commit was lost")
            return await move(self, moves)  # type: ignore[arg-type]

        monkeypatch.setattr(writes, "move_outlets", failing_once)
        await happen(service, 1)
        await until_told(service, sink)
    assert sink.numbers == [1, 1]
    assert sink.arrived[0] == sink.arrived[1]


async def open_transaction(service: Service) -> Transaction:
    async with service.store.transaction() as tx:
        return tx


async def test_a_cursor_that_another_relay_moved_is_believed(url: str, tmp_path: Path) -> None:
    sink = _Reentrant()
    async with relay(url, tmp_path, sink) as service:
        sink.service = service
        await flood(service, 5)
        await until_told(service, sink)
        # while we sent 1 to 5, somebody else had sent them and more
        assert await cursor(service, sink.name) == await newest(service) == 8
    assert sink.numbers == [1, 2, 3, 4, 5]


class _Reentrant(MemorySink):
    """While it is sent something for the first time, another relay gets further."""

    service: Service | None = None

    async def send(self, events: Sequence[CloudEvent]) -> None:
        await super().send(events)
        if not events:
            return  # it was only asked whether it could
        service, self.service = self.service, None
        if service is not None:
            async with service.store.transaction() as tx:
                await tx.append_events([Event(type=EventType.POOL_CHANGED, kind="pool", id="x")] * 3)
            async with service.store.transaction() as tx:
                await tx.move_outlets([OutletMove(name=self.name, was=0, now=8, at_ms=1)])


async def test_a_bus_that_the_settings_no_longer_name_is_told_no_more_and_holds_nothing_back(
    url: str, tmp_path: Path
) -> None:
    sink = MemorySink()
    async with relay(url, tmp_path, sink) as service:
        await happen(service, 2)
        await until_told(service, sink)
    async with relay(url, tmp_path) as service:
        await happen(service, 2)

        await soon_disabled(service)

        async def held_by_nobody() -> bool:
            needed_from = await service.house.outlets.needed_from()
            return needed_from is None or needed_from > 4  # the callbacks of requests have an outlet, too

        await soon(held_by_nobody)
    async with relay(url, tmp_path, sink) as service:
        await until_told(service, sink)
    assert sink.numbers == [1, 2, 3, 4]


async def test_events_are_kept_for_a_bus_that_lags(url: str, tmp_path: Path) -> None:
    sink = MemorySink()
    sink.is_away = True
    async with relay(url, tmp_path, sink, events_keep="1000", events_keep_max="5000") as service:
        await flood(service, 3000)
        await soon(lambda: sink.calls >= 1)
        await service.housekeeping.sweep()
        assert await service.store.event_range() == (1, 3000)
        sink.is_away = False
        await until_told(service, sink)

        async def is_swept() -> bool:  # the place of the callbacks follows within a second
            await service.housekeeping.sweep()
            return await service.store.event_range() == (2001, 3000)

        await soon(is_swept)
    assert sink.numbers == [*range(1, 3001)]


async def test_a_bus_that_lags_too_far_is_left_behind_and_everybody_is_told(url: str, tmp_path: Path) -> None:
    away, here = MemorySink("away"), MemorySink("here")
    away.is_away = True
    async with relay(url, tmp_path, away, here, events_keep="1000", events_keep_max="2000") as service:
        await flood(service, 3000)
        await until_told(service, here)
        await soon(lambda: away.calls >= 1)
        await service.housekeeping.sweep()
        assert await service.store.event_range() == (1001, 3001)
        view = await service.house.outlets.get("away")
        assert (view.outlet.cursor, view.behind) == (1000, 2001)
        assert view.outlet.error  # it is away all the same
        [told] = await service.store.events(EventFilter(types=("outlet.",), id="away"), after=1000, limit=10)
        assert (told.type, told.id, told.version, told.code) == ("outlet.left_behind", "away", 1, "events_gone")
        assert told.data == {"first": 1, "last": 1000}
        metrics = (await service.house.metrics.text()).decode()
        assert 'virtflow_outlet_left_behind_events_total{outlet="away"} 1000.0' in metrics
        away.is_away = False
        await until_told(service, away)
        await until_told(service, here)
    assert away.numbers == [*range(1001, 3002)]
    assert here.numbers == [*range(1, 3002)]


async def test_a_courier_that_finds_its_events_forgotten_says_so_itself(url: str, tmp_path: Path) -> None:
    sink = MemorySink()
    async with relay(url, tmp_path, sink) as service:
        await flood(service, 10)
        await until_told(service, sink)
    async with relay(url, tmp_path) as service:  # nobody is told, and nothing is kept for anybody
        await flood(service, 3000)
        await soon_disabled(service)
        await service.store.trim_events(keep=1000)
    again = MemorySink()
    async with relay(url, tmp_path, again) as service:
        await until_told(service, again, upto=3011)
        [told] = await service.store.events(EventFilter(types=("outlet.",), id="memory"), after=2010, limit=10)
        assert told.data == {"first": 11, "last": 2010}
        await until_told(service, again)
        assert again.numbers == [*range(2011, await newest(service) + 1)]


async def soon_disabled(service: Service) -> None:
    async def disabled() -> bool:
        return not (await service.house.outlets.get("memory")).outlet.enabled

    await soon(disabled)


async def test_an_outlet_that_nobody_knows_is_not_found(url: str, tmp_path: Path) -> None:
    async with relay(url, tmp_path) as service:
        with pytest.raises(NotFound) as refused:
            await service.house.outlets.get("nats")
    assert refused.value.error_code == "outlet_not_found"


async def test_waits_grow_up_to_a_limit_and_differ(tmp_path: Path) -> None:
    service = build(config(tmp_path / "unused.db"), inventories=[], sinks=[])
    chances = iter([0.0, 0.999, 0.5, 0.5])
    courier = buses.BusCourier(
        MemorySink(), store=service.store, outlets=service.house.outlets, clock=service.housekeeping._clock,
        observer=service.house.metrics, chance=lambda: next(chances),
    )  # fmt: skip
    waits = [courier._wait_s(failures) for failures in (1, 1, 2, 50)]
    assert waits[0] < waits[1] < buses.RETRY_S * 2
    assert waits[2] == buses.RETRY_S * 2
    assert waits[3] == buses.RETRY_S_MAX


async def test_who_wakes_up_after_his_term_tells_nothing(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between reading and sending: somebody else has told the bus of that and more since."""
    sink, assembly = MemorySink(), Assembly("relay")
    async with relay(url, tmp_path) as service:
        await happen(service, 3)
        term = await assembly.candidate().campaign()
        courier = buses.BusCourier(
            sink, store=service.store, outlets=service.house.outlets, clock=service.housekeeping._clock,
            observer=service.house.metrics,
        )  # fmt: skip
        await service.house.outlets.settle([sink.name])
        read, slept = service.store.history_id, asyncio.Event()

        async def sleep_and_read() -> str:
            assembly.depose()
            slept.set()
            return await read()

        monkeypatch.setattr(service.store, "history_id", sleep_and_read)
        running = asyncio.create_task(courier.run(term))
        async with asyncio.timeout(10):
            await slept.wait()
        await happen(service, 1)  # and it has had its turn
        await end(running)
        assert (sink.calls, await cursor(service, sink.name)) == (0, 0)


async def test_a_bus_that_hangs_blocks_nobody(url: str, tmp_path: Path) -> None:
    hanging, here = _Hanging("hanging"), MemorySink("here")
    async with relay(url, tmp_path, hanging, here) as service:
        await happen(service, 3)
        await until_told(service, here)
        await soon(hanging.was_asked.is_set)
    assert here.numbers == [1, 2, 3]


class _Hanging(MemorySink):
    """Never answers. A sink must not; if one does, it is alone with it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.was_asked = asyncio.Event()

    async def send(self, events: Sequence[CloudEvent]) -> None:
        self.was_asked.set()
        await asyncio.Event().wait()
