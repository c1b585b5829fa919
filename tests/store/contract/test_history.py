"""Bare rows: every table whole, in the order of its key, as one moment left it."""

import pytest
from tests.store.builders import event, instance, task
from tests.store.conftest import OpenAnother

from virtflow.store import history
from virtflow.store.contract import Store
from virtflow.testing.builders import host, shape


async def read(store: Store, table: str) -> list[tuple[object, ...]]:
    async with store.moment() as moment:
        return [tuple(row) async for rows in moment.bare_rows(table) for row in rows]


async def live(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.add_hosts([host(f"bm-{number}") for number in range(3)])
        [shape_id] = await tx.intern_shapes([shape()])
        await tx.add_instances([instance(number, shape_id=shape_id) for number in range(5)])
        await tx.add_tasks([task(number, shape_id=shape_id) for number in range(5)])
        await tx.append_events([event(number) for number in range(5)])


@pytest.mark.parametrize("table", [name.removeprefix("history_") for name in history.FIRST_KEYS])
async def test_every_table_can_be_read_and_is_in_the_order_of_its_key(store: Store, table: str) -> None:
    await live(store)
    keys = [row[0] for row in await read(store, table)]
    assert keys == sorted(keys)  # type: ignore[type-var]


async def test_a_table_is_read_whole_however_it_is_cut(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await live(store)
    whole = {table: await read(store, table) for table in ("instances", "tasks", "hosts", "log")}
    monkeypatch.setattr(history, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(history, "LOG_ROWS_AT_ONCE", 1)
    assert {table: await read(store, table) for table in whole} == whole
    assert [len(rows) for rows in whole.values()] == [5, 5, 3, 1]


async def test_all_tables_are_of_one_moment(store: Store, another: OpenAnother, url: str) -> None:
    await live(store)
    async with store.moment() as moment:
        before = [row async for rows in moment.bare_rows("tasks") for row in rows]
        async with store.transaction() as tx:
            await tx.add_tasks([task(99)])
        assert [row async for rows in moment.bare_rows("tasks") for row in rows] == before
    assert len(await read(store, "tasks")) == len(before) + 1
