"""Processes: each says that it is there, and those that say nothing are forgotten."""

import msgspec

from virtflow.model.health import Status, Unwell
from virtflow.model.process import Process
from virtflow.store.contract import Store


def process(name: str, *, started_ms: int = 1, roles: tuple[str, ...] = ("api", "relay")) -> Process:
    return Process(
        id=name, node="bm-1", roles=roles, address="http://bm-1:8080", version="1.2.3", started_ms=started_ms
    )


async def put(store: Store, *processes: Process) -> None:
    async with store.transaction() as tx:
        for one in processes:
            await tx.put_process(one)


async def test_a_process_comes_back_as_it_was_written_with_the_time_it_was_seen(store: Store) -> None:
    await put(store, process("late", started_ms=9), process("early", roles=()))
    early, late = await store.processes()
    assert msgspec.structs.replace(early, seen_ms=0, silent_ms=0) == process("early", roles=())
    assert (late.id, late.roles) == ("late", ("api", "relay"))
    assert early.seen_ms > 1_700_000_000_000
    assert 0 <= early.silent_ms < 60_000


async def test_the_database_tells_what_time_it_is_by_the_clock_that_dates_processes(store: Store) -> None:
    before_ms = await store.now_ms()
    await put(store, process("a"))
    [one] = await store.processes()
    assert before_ms <= one.seen_ms <= await store.now_ms()


async def test_who_is_seen_again_is_not_there_twice(store: Store) -> None:
    await put(store, process("a"))
    first = (await store.processes())[0]
    await put(store, msgspec.structs.replace(process("a"), address="http://bm-1:9090"))
    [again] = await store.processes()
    assert again.address == "http://bm-1:9090"
    assert again.seen_ms >= first.seen_ms


async def test_who_says_goodbye_is_gone_and_who_says_nothing_is_forgotten(store: Store) -> None:
    await put(store, process("a"), process("b"), process("c"))
    async with store.transaction() as tx:
        await tx.remove_process("a")
        await tx.remove_process("never")
        await tx.remove_silent_processes(silent_ms=60_000)
    assert [one.id for one in await store.processes()] == ["b", "c"]
    async with store.transaction() as tx:
        await tx.remove_silent_processes(silent_ms=-60_000)
    assert await store.processes() == []


async def test_what_is_wrong_with_a_process_is_kept_until_it_says_that_it_is_well(store: Store) -> None:
    broker = Unwell(part="broker", status=Status.DEGRADED, since_ms=7, cause="it’s “away”", remedy="start it")
    await put(store, msgspec.structs.replace(process("a"), unwell=(broker,)))
    assert [one.unwell for one in await store.processes()] == [(broker,)]
    await put(store, process("a"))
    assert [one.unwell for one in await store.processes()] == [()]
