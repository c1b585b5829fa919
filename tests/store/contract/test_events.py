"""Events: numbered in commit order without gaps, read in pages, forgotten from the old end."""

import asyncio
import random

import msgspec
import pytest
from tests.store.builders import event, undone
from tests.store.conftest import OpenAnother

from virtflow.model.errors import Gone
from virtflow.model.event import Event, EventType
from virtflow.store import housekeeping
from virtflow.store.contract import EventFilter, RetryTransaction, Store

EVERYTHING = EventFilter()


async def append(store: Store, *events: Event) -> int:
    async with store.transaction() as tx:
        return await tx.append_events(events)


async def read(store: Store, *, after: int = 0, where: EventFilter = EVERYTHING, limit: int = 10_000) -> list[Event]:
    return await store.events(where, after=after, limit=limit)


async def test_the_first_event_is_number_one(store: Store) -> None:
    assert await store.event_range() == (1, 0)
    assert await read(store) == []
    assert await append(store, event(1), event(2)) == 1
    assert await append(store, event(3)) == 3
    assert await store.event_range() == (1, 3)
    assert [(one.seq, one.id) for one in await read(store)] == [(1, "1"), (2, "2"), (3, "3")]


async def test_no_events_take_no_number(store: Store) -> None:
    assert await append(store) == 1
    assert await store.event_range() == (1, 0)


async def test_an_event_comes_back_as_it_was_written(store: Store) -> None:
    written = Event(
        type=EventType.VM_DELETED,
        kind="vm",
        id="x",
        version=4,
        at_ms=7,
        task="t",
        vm="v",
        host="h",
        pool="p",
        delta={"cpu": -5},
        fence=3,
        actor="me",
        code="c",
        text='ä "quoted"',
        was="a",
        now="b",
        data={"k": [1, "2"]},
    )
    await append(store, written, msgspec.structs.replace(written, delta=msgspec.Raw(b'{"cpu":-5}')))
    assert await read(store) == [msgspec.structs.replace(written, seq=number) for number in (1, 2)]


async def test_pages_begin_and_end_anywhere(store: Store) -> None:
    await append(store, *(event(number) for number in range(1, 2_501)))
    await append(store, *(event(number) for number in range(2_501, 2_511)))
    for after, limit in [(0, 1), (0, 1_000), (999, 2), (1_000, 1_001), (1_234, 9), (2_499, 5), (2_510, 3), (9_999, 3)]:
        page = await read(store, after=after, limit=limit)
        assert [one.seq for one in page] == list(range(after + 1, min(after + limit, 2_510) + 1))
        assert [one.id for one in page] == [str(one.seq) for one in page]


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        (EventFilter(types=("task.failed",)), [3]),
        (EventFilter(types=("task.",)), [2, 3]),
        (EventFilter(types=("task.failed", "host.")), [1, 3]),
        (EventFilter(types=("task",)), []),
        (EventFilter(kind="host"), [1]),
        (EventFilter(id="x"), [1, 3]),
        (EventFilter(id="x", kind="task"), [3]),
        (EventFilter(id="y"), [2]),
        (EventFilter(id="z"), []),
    ],
)
async def test_filters_are_combined(store: Store, where: EventFilter, numbers: list[int]) -> None:
    await append(
        store,
        event(kind=EventType.HOST_CHANGED, id="x"),
        event(kind=EventType.TASK_COMPLETED, id="y", vm="z"),
        event(kind=EventType.TASK_FAILED, id="x"),
    )
    assert [one.seq for one in await read(store, where=where)] == numbers


async def test_numbers_have_no_gaps_whatever_is_rolled_back(store: Store, another: OpenAnother, url: str) -> None:
    stores = [store] if url.startswith("sqlite") else [store, await another(), await another()]
    chance = random.Random(7)

    async def write(number: int) -> int:
        count, fails = chance.randrange(1, 4), chance.random() < 0.3
        async with stores[number % len(stores)].transaction() as tx:
            await tx.set_setting(f"s{number}", "")
            await asyncio.sleep(0)
            await tx.append_events([event(number)] * count)
            if fails:
                raise ZeroDivisionError
        return count

    results = await asyncio.gather(*(write(number) for number in range(80)), return_exceptions=True)
    written = [result for result in results if isinstance(result, int)]
    assert {type(result) for result in results} == {int, ZeroDivisionError}
    assert [one.seq for one in await read(store)] == list(range(1, sum(written) + 1))


async def test_no_reader_ever_sees_a_number_before_the_one_below_it(store: Store) -> None:
    """A sequence of PostgreSQL would: numbers are drawn early and committed late, and a reader skips them for ever."""
    done = asyncio.Event()
    seen: list[int] = []

    async def follow() -> None:
        while not done.is_set() or await read(store, after=len(seen)):
            seen.extend([one.seq for one in await read(store, after=len(seen))])
            await asyncio.sleep(0)

    async def write() -> None:
        for number in range(20):
            await append(store, event(number), event(number))

    async with asyncio.TaskGroup() as group:
        group.create_task(follow())
        await asyncio.gather(*(write() for _ in range(4)))
        done.set()
    assert seen == list(range(1, 161))


async def test_the_oldest_are_forgotten_exactly(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "EVENT_ROWS_FORGOTTEN_AT_ONCE", 2)
    for first in range(1, 100, 10):
        await append(store, *(event(number) for number in range(first, first + 10)))
    assert await store.trim_events(keep=1_000) == 0
    assert await store.event_range() == (1, 100)
    assert await store.trim_events(keep=25) == 75
    assert await store.event_range() == (76, 100)
    assert [one.seq for one in await read(store, after=75)] == list(range(76, 101))
    assert [one.seq for one in await read(store, after=75, limit=2)] == [76, 77]
    with pytest.raises(Gone):
        await read(store, after=74)
    with pytest.raises(Gone):
        await read(store, after=0, where=EventFilter(kind="host"))
    assert [one.seq async for chunk in store.scan_events() for one in chunk] == list(range(76, 101))
    assert await store.trim_events(keep=25) == 0
    assert await append(store, event(0)) == 101
    assert await store.trim_events(keep=25, upto=100) == 0  # as it was planned before somebody wrote


async def test_everything_may_be_forgotten(store: Store) -> None:
    await append(store, event(1), event(2))
    assert await store.trim_events(keep=0) == 2
    assert await store.event_range() == (3, 2)
    assert await read(store, after=2) == []
    with pytest.raises(Gone):
        await read(store, after=1)


async def test_a_scan_of_events_sees_all_in_order(store: Store) -> None:
    await append(store, *(event(number) for number in range(1, 2_101)))
    await append(store, event(2_101))
    assert [int(one.id) async for chunk in store.scan_events() for one in chunk] == list(range(1, 2_102))


async def test_a_round_that_lost_a_race_left_no_events(store: Store) -> None:
    async with undone(store, RetryTransaction("somebody was faster")) as tx:
        await tx.append_events([event(1)])
    assert await store.event_range() == (1, 0)
