"""A backup taken under load is one moment, fits either database, and begins a history of its own."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import apsw
import asyncpg
import msgspec
import pytest
from tests.control.conftest import host, order, wish
from tests.control.test_schedule import create, register

from virtflow.control.fsck import fsck
from virtflow.main import Service
from virtflow.model.errors import Fenced, HistoryOver, InvalidSetting, VirtflowError
from virtflow.model.event import EventType
from virtflow.model.host import Host
from virtflow.store import backup, migrations
from virtflow.store.backup import take
from virtflow.store.contract import EventFilter, Store
from virtflow.store.dump import DamagedBackup, Head, Rows, read_dump, write_dump
from virtflow.store.open import open_store
from virtflow.store.restore import put_back

Start = Callable[..., AbstractAsyncContextManager[Service]]
AT_MS = 1_800_000_000_000
EVERYTHING = EventFilter()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service("postgresql"))])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/restored/virtflow.db"
    return str(request.getfixturevalue("new_postgresql_url"))


async def backed_up(url: str, file: Path) -> Path:
    await write_dump(file, take(url, program="test"))
    return file


async def reopened(url: str) -> Store:
    store = open_store(url)
    await store.open()
    return store


async def content(url: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables, as a backup has them."""
    found: dict[str, list[tuple[object, ...]]] = {}
    async for frame in take(url, program="test"):
        if isinstance(frame, Rows):
            rows = [tuple(int(v) if isinstance(v, bool) else v for v in row) for row in frame.rows]
            found.setdefault(frame.table, []).extend(rows)
    return {table: sorted(rows, key=repr) for table, rows in found.items()}


async def keep_busy(service: Service, stop: asyncio.Event) -> int:
    """Places and deletes VMs for as long as it may."""
    for number in itertools.count():
        if stop.is_set():
            return number
        await create(service, *(order(f"vm-{number}-{n}") for n in range(5)))
        await service.house.vms.delete(f"vm-{number}-0", expected_version=None, actor="test")
    raise AssertionError("unreachable")


async def test_a_backup_under_load_is_one_moment_and_fits_either_database(
    start: Start, url: str, target: str, tmp_path: Path
) -> None:
    async with start() as service:
        await register(service, *(host(f"bm-{n}", cores=4000, memory_gib=4000) for n in range(5)))
        stop = asyncio.Event()
        busy = asyncio.create_task(keep_busy(service, stop))
        await create(service, order("too-large", want=wish(cores=999_999)))
        while (await service.store.event_range())[1] < 100:
            await asyncio.sleep(0.01)
        before = (await service.store.event_range())[1]
        file = await backed_up(url, tmp_path / "backup")
        stop.set()
        assert await busy > 0
    head = next(iter(read_dump(file)))
    assert isinstance(head, Head)
    assert head.newest_event >= before

    await put_back(target, file, at_ms=AT_MS)

    store = await reopened(target)
    report = await fsck(store)
    assert report.violations == []
    assert report.hosts == 5
    assert (await store.event_range())[1] == head.newest_event + 1  # and one that tells of the restore
    assert (await store.instance_by_name("too-large")) is not None
    await store.close()


async def test_every_row_comes_back_and_numbers_are_not_given_twice(
    start: Start, url: str, target: str, tmp_path: Path
) -> None:
    async with start() as service:
        await register(service, host("bm-1"), host("bm-2", labels={"a": "b"}), host("bm-3"))
        await create(service, *(order(f"vm-{n}", want=wish(memory_gib=n + 1)) for n in range(3)))
        await service.house.hosts.cordon("bm-2", cordoned=True, expected_version=None, actor="test")
        await service.house.vms.delete("vm-1", expected_version=None, actor="test")
    before = await content(url)
    file = await backed_up(url, tmp_path / "backup")

    await put_back(target, file, at_ms=AT_MS)

    after = await content(target)
    changed = {table for table in before | after if before.get(table) != after.get(table)}
    assert changed == {"setting", "counter", "event"}  # the history is another one
    assert all(row in after["event"] for row in before["event"])
    store = await reopened(target)
    async with store.transaction() as tx:
        known = [one.id for one in await store.hosts_by_name(["bm-1", "bm-2", "bm-3"])]
        [fresh] = await tx.add_hosts([Host(id=0, spec=host("bm-4"))])
    assert fresh not in known
    await store.close()


async def test_the_restored_database_begins_a_history_and_fences_off_all_leaders_of_before(
    start: Start, url: str, target: str, tmp_path: Path
) -> None:
    async with start() as service:
        await register(service, host("bm-1"))
    old = await reopened(url)
    former, newest = await old.history_id(), (await old.event_range())[1]
    async with old.transaction() as tx:
        elected_later = await tx.take_fence()  # after the backup was taken
    await old.close()
    file = await backed_up(url, tmp_path / "backup")

    await put_back(target, file, at_ms=AT_MS)

    store = await reopened(target)
    assert await store.history_id() != former
    [told] = await store.events(EVERYTHING, after=newest, limit=10)
    assert (told.type, told.id, told.at_ms) == (EventType.DATABASE_RESTORED, await store.history_id(), AT_MS)
    assert told.data == {"former_history_id": former, "former_newest": newest}
    with pytest.raises(Fenced):
        async with store.transaction() as tx:
            await tx.check_fence(elected_later + 10)
    # who had read no further than the backup goes on; who had, is told
    await store.check_history(former, after=newest)
    await store.check_history(await store.history_id(), after=newest + 1)
    with pytest.raises(HistoryOver, match=f"ended at event {newest}"):
        await store.check_history(former, after=newest + 1)
    with pytest.raises(HistoryOver, match="not of the history"):
        await store.check_history("another", after=0)
    await store.close()


async def test_a_second_restore_remembers_both_histories(start: Start, url: str, tmp_path: Path) -> None:
    async with start() as service:
        await register(service, host("bm-1"))
    places = [url, *(f"sqlite:///{tmp_path}/{name}.db" for name in ("second", "third"))]
    for number, (source, onto) in enumerate(itertools.pairwise(places)):
        await put_back(onto, await backed_up(source, tmp_path / f"backup-{number}"), at_ms=AT_MS + number)
    store = await reopened(places[-1])
    histories = await store.former_histories()
    assert [one.last_seq for one in histories] == sorted(one.last_seq for one in histories)
    assert [one.ended_ms for one in histories] == [AT_MS, AT_MS + 1]
    assert len({one.id for one in histories} | {await store.history_id()}) == 3
    await store.close()


async def test_a_service_goes_on_where_the_backup_was_taken(
    start: Start, url: str, target: str, tmp_path: Path
) -> None:
    async with start() as service:
        await register(service, host("bm-1", cores=4))
        await create(service, *(order(f"vm-{n}") for n in range(3)), order("waits", want=wish(cores=3)))
    await put_back(target, await backed_up(url, tmp_path / "backup"), at_ms=AT_MS)
    async with start(database_url=target) as service:
        assert (await service.house.hosts.get("bm-1")).used["cpu"] == 3000
        for n in range(3):
            await service.house.vms.delete(f"vm-{n}", expected_version=None, actor="test")
        async with asyncio.timeout(10):
            while (await service.house.vms.get("waits")).instance.host is None:
                await asyncio.sleep(0.01)
        page = await service.house.events.read(EVERYTHING, after=0, limit=100)
        assert EventType.DATABASE_RESTORED in [event.type for event in page.items]
        with pytest.raises(HistoryOver):
            await service.house.events.check(after=page.newest + 1000, history_id=None)


async def test_a_place_that_is_not_empty_is_refused_and_left_alone(start: Start, url: str, tmp_path: Path) -> None:
    async with start() as service:
        await register(service, host("bm-1"))
    file, before = await backed_up(url, tmp_path / "backup"), await content(url)
    with pytest.raises(InvalidSetting, match="a backup replaces nothing"):
        await put_back(url, file, at_ms=AT_MS)
    assert await content(url) == before


async def test_a_damaged_backup_leaves_the_place_empty(start: Start, url: str, target: str, tmp_path: Path) -> None:
    async with start() as service:
        await register(service, host("bm-1"))
    file = await backed_up(url, tmp_path / "backup")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedBackup):
        await put_back(target, file, at_ms=AT_MS)
    file.write_bytes(whole)
    await put_back(target, file, at_ms=AT_MS)  # nothing is in the way


async def test_a_restore_that_fails_in_the_middle_leaves_the_place_empty(
    start: Start, url: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start() as service:
        await register(service, host("bm-1"))
    file = await backed_up(url, tmp_path / "backup")

    def with_impossible_rows(path: Path) -> object:
        for frame in read_dump(path):
            yield frame
            if isinstance(frame, Rows) and frame.table == "host":
                yield frame

    monkeypatch.setattr("virtflow.store.restore.read_dump", with_impossible_rows)
    with pytest.raises(VirtflowError):
        await put_back(target, file, at_ms=AT_MS)
    monkeypatch.undo()
    await put_back(target, file, at_ms=AT_MS)


async def test_a_backup_of_a_newer_program_is_refused(start: Start, url: str, target: str, tmp_path: Path) -> None:
    async with start():
        pass

    async def newer() -> AsyncIterator[backup.Said]:
        async for frame in take(url, program="test"):
            yield msgspec.structs.replace(frame, version=99) if isinstance(frame, Head) else frame

    await write_dump(tmp_path / "backup", newer())
    with pytest.raises(DamagedBackup, match="of version 99, and this program knows them up to"):
        await put_back(target, tmp_path / "backup", at_ms=AT_MS)


async def test_where_there_is_nothing_there_is_no_backup(target: str, tmp_path: Path) -> None:
    with pytest.raises(VirtflowError):
        await backed_up(target, tmp_path / "backup")
    assert "backup" not in {path.name for path in await asyncio.to_thread(lambda: list(tmp_path.iterdir()))}


@pytest.mark.parametrize("version", [step.version for step in migrations.steps("sqlite")])
async def test_a_backup_from_before_an_upgrade_is_brought_up_to_date(target: str, tmp_path: Path, version: int) -> None:
    """The tables are made as they were, filled, and then take the steps since."""
    source = f"sqlite:///{tmp_path}/old.db"
    connection = apsw.Connection(str(tmp_path / "old.db"))
    connection.execute("CREATE TABLE schema (version INTEGER NOT NULL) STRICT")
    for step in migrations.steps("sqlite")[:version]:
        connection.execute(step.sql)
        connection.execute("INSERT INTO schema (version) VALUES ($1)", (step.version,))
    connection.execute("INSERT INTO setting (key, value) VALUES ('history_id', 'old'), ('k', 'v')")
    connection.close()
    await put_back(target, await backed_up(source, tmp_path / "backup"), at_ms=AT_MS)
    store = await reopened(target)
    assert await store.setting("k") == "v"
    assert [one.id for one in await store.former_histories()] == ["old"]
    await store.close()


@pytest.mark.service("postgresql")
async def test_a_server_that_starts_during_a_restore_waits_for_it(
    start: Start, new_postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"sqlite:///{tmp_path}/virtflow.db"
    async with start(database_url=source) as service:
        await register(service, host("bm-1"))
    file = await backed_up(source, tmp_path / "backup")
    opening: list[asyncio.Task[Store]] = []

    def slowly(path: Path) -> object:
        for frame in read_dump(path):
            if isinstance(frame, Rows) and not opening:
                opening.append(asyncio.create_task(reopened(new_postgresql_url)))
            yield frame

    monkeypatch.setattr("virtflow.store.restore.read_dump", slowly)
    await put_back(new_postgresql_url, file, at_ms=AT_MS)

    store = await opening[0]
    assert await store.host("bm-1") is not None
    connection = await asyncpg.connect(new_postgresql_url)
    assert await connection.fetchval("SELECT count(*) FROM schema") == len(migrations.steps("postgresql"))
    await connection.close()
    await store.close()
