"""What is special about the embedded database: one file, one process, one writer, one disk."""

import asyncio
import contextlib
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.store.builders import add_hosts, add_instances, event, host_named, instance, intern, key
from tests.store.faulty_disk import FaultyDisk, faulty_disk

from virtflow.model.errors import InvalidSetting, OutcomeUnknown, Unavailable
from virtflow.store import sqlite
from virtflow.store.contract import HostFilter, InstanceFilter, RoomChange
from virtflow.store.open import open_store
from virtflow.store.sqlite import SqliteStore
from virtflow.testing.builders import host

HOLD = """
import asyncio, sys
from pathlib import Path
from virtflow.store.sqlite import SqliteStore

async def hold():
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    print("open", flush=True)
    await asyncio.sleep(60)

asyncio.run(hold())
"""


WRITE = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
print("writing", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "virtflow.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(file)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as disk:
        yield disk


@pytest.fixture
def holder(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that uses the file."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


@contextlib.contextmanager
def another_program_writes(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Until its input is closed. A process of its own: within one, the locks of POSIX hide nothing from each other."""
    command = [sys.executable, "-c", WRITE, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "writing\n"
        yield program


def end(program: subprocess.Popen[str]) -> None:
    assert program.stdin is not None
    program.stdin.close()


def overwrite(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def damage(file: Path) -> None:
    """As a bad disk does, and nobody said goodbye."""
    file.with_name(file.name + ".lock").write_text("process 1\n")
    content = bytearray(file.read_bytes())
    for place in range(20_000, len(content), 9_000):
        content[place : place + 64] = bytes(64)
    file.write_bytes(content)


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def log_bytes(file: Path) -> int:
    return file.with_name(file.name + "-wal").stat().st_size


async def set_setting(store: SqliteStore, name: str, value: str = "") -> None:
    async with store.transaction() as tx:
        await tx.set_setting(name, value)


# one process


async def test_a_second_process_is_refused_and_told_who_is_first(file: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(InvalidSetting, match=f"another process uses it .process {holder.pid}.") as caught:
        await SqliteStore(file).open()
    assert "VIRTFLOW_DATABASE_URL" in caught.value.detail
    assert "stop that process" in caught.value.remedy
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    store = SqliteStore(file)
    await store.open()
    await store.close()


async def test_a_second_store_in_one_process_is_refused_too(store: SqliteStore, file: Path) -> None:
    with pytest.raises(InvalidSetting, match="another process uses it"):
        await SqliteStore(file).open()
    await store.ping()


async def test_another_program_that_writes_delays_but_does_not_block(store: SqliteStore, file: Path) -> None:
    with another_program_writes(file) as program:
        writing = asyncio.create_task(set_setting(store, "k", "v"))
        ticks = 0
        for _ in range(20):
            await asyncio.sleep(0.005)
            ticks += 1
        assert not writing.done()
        end(program)
        await writing
    assert ticks == 20
    assert await store.setting("k") == "v"


async def test_another_program_that_never_ends_is_named(
    store: SqliteStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_WAIT_S", 0.1)
    with another_program_writes(file) as program:
        with pytest.raises(Unavailable, match="another program"):
            await set_setting(store, "k")
        end(program)
    await set_setting(store, "k")


# looking at a file that another process uses


async def test_a_look_sees_what_the_owner_has_committed(store: SqliteStore, file: Path) -> None:
    await add_hosts(store, "a")
    look = open_store(f"sqlite:///{file}", reading=True)
    await look.open()
    async with look.moment() as moment:
        assert [one.name for chunk in [part async for part in moment.all_hosts()] for one in chunk] == ["a"]
        await add_hosts(store, "b")
        assert [one.name for chunk in [part async for part in moment.all_hosts()] for one in chunk] == ["a"]
    assert [one.name for one in await look.hosts(HostFilter(), limit=9)] == ["a", "b"]
    with pytest.raises(Unavailable, match="only reads"):
        async with look.transaction():
            pass
    await look.close()
    await set_setting(store, "k")


async def test_a_look_does_not_hinder_an_owner_from_starting(file: Path) -> None:
    store = SqliteStore(file)
    await store.open()
    await store.close()
    look = SqliteStore(file, reading=True)
    await look.open()
    await store.open()
    await set_setting(store, "k", "v")
    assert await look.setting("k") == "v"
    await look.close()
    await store.close()


async def test_a_look_makes_nothing(file: Path) -> None:
    with pytest.raises(InvalidSetting, match="there is no file"):
        await SqliteStore(file, reading=True).open()
    assert names_in(file.parent) == []
    sqlite3.connect(file).close()
    with pytest.raises(InvalidSetting, match="older than version"):
        await SqliteStore(file, reading=True).open()


# opening


async def test_the_file_is_for_its_owner_only(store: SqliteStore, file: Path) -> None:
    await set_setting(store, "k")
    assert {path.name: path.stat().st_mode & 0o077 for path in file.parent.iterdir()} == {
        "virtflow.db": 0,
        "virtflow.db-wal": 0,
        "virtflow.db-shm": 0,
        "virtflow.db.lock": 0,
    }


@pytest.mark.parametrize("content", [b"this is no database" * 500, b"SQLite format 3\0" + b"\xff" * 8_000])
async def test_a_file_that_is_no_database_is_refused(file: Path, content: bytes) -> None:
    overwrite(file, content)
    for _ in range(2):  # a refused start does not count as a clean end
        with pytest.raises(InvalidSetting, match="damaged or no database") as caught:
            await SqliteStore(file).open()
    assert "backup" in caught.value.remedy
    assert await asyncio.to_thread(file.read_bytes) == content


async def test_damage_after_a_crash_is_found_at_start(file: Path) -> None:
    await a_damaged_file(file)
    with pytest.raises(InvalidSetting, match="damaged"):
        await SqliteStore(file).open()


async def ping_for_2_s(store: SqliteStore) -> None:
    for _ in range(200):
        await store.ping()
        await asyncio.sleep(0.01)


async def a_damaged_file(file: Path) -> None:
    store = SqliteStore(file)
    await store.open()
    await add_instances(store, [instance(number, given_name=f"vm-{number}") for number in range(3_000)])
    await store.close()
    damage(file)


async def test_damage_of_a_large_file_is_found_soon_after_start(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "CHECKED_BYTES_MAX", 10_000)
    await a_damaged_file(file)
    store = SqliteStore(file)
    for _ in range(2):  # and no close makes it forgotten
        await store.open()
        with pytest.raises(Unavailable, match="file is damaged"):
            await ping_for_2_s(store)
        await store.close()


async def test_a_large_file_that_is_sound_is_checked_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "CHECKED_BYTES_MAX", 10_000)
    for _ in range(3):
        store = SqliteStore(file)
        await store.open()
        await add_hosts(store, f"h{time.perf_counter_ns()}")
        await asyncio.sleep(0.05)
        await store.ping()
        await store.close()
    assert await asyncio.to_thread(file.with_name("virtflow.db.lock").read_text) == "closed\n"


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="cannot be opened") as caught:
        await SqliteStore(tmp_path / "no" / "where.db").open()
    assert "directory must exist" in caught.value.remedy


async def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting):
        await SqliteStore(tmp_path).open()


async def test_nothing_of_a_temporary_database_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "MEMORY_FILE_SYSTEM", tmp_path)
    store = open_store("sqlite://")
    await store.open()
    await add_hosts(store, "a")
    assert (await host_named(store, "a")).name == "a"
    assert names_in(tmp_path)
    await store.close()
    assert names_in(tmp_path) == []


async def test_what_was_written_is_there_after_a_restart(file: Path) -> None:
    for number in range(3):
        store = SqliteStore(file)
        await store.open()
        await add_hosts(store, host(f"h{number}", custom={f"d{number}": 1}))
        assert [(await host_named(store, f"h{n}")).allocatable[f"d{n}"] for n in range(number + 1)] == [1] * (
            number + 1
        )
        await store.close()


# the disk


async def test_a_full_disk_leaves_nothing_half_written(store: SqliteStore) -> None:
    [host_id] = await add_hosts(store, "a")
    shape_id = await intern(store)
    written = 0

    async def place(number: int) -> None:
        async with store.transaction() as tx:
            assert not await tx.take_room([RoomChange(host_id, {"cpu": 1, "vms": 1}, 1)])
            await tx.add_instances([instance(number, shape_id=shape_id, host_id=host_id, given_name=f"n{number:060}")])
            await tx.append_events([event(number, text="x" * 3_000)])

    pages = store._writer.pragma("page_count")
    store._writer.pragma("max_page_count", pages + 8)
    with contextlib.suppress(Unavailable):
        for number in range(100):
            await place(number)
            written += 1
    with pytest.raises(Unavailable, match="disk of the database is full"):
        await place(99)
    assert 0 < written < 100
    assert (await host_named(store, "a")).instances == written
    assert len(await store.instances(InstanceFilter(), limit=200)) == written
    assert await store.event_range() == (1, written)
    store._writer.pragma("max_page_count", pages + 1_000)  # somebody has made room
    await place(77)
    assert (await host_named(store, "a")).instances == written + 1


async def test_a_failed_sync_is_unknown_and_never_tried_again(disk: FaultyDisk, file: Path) -> None:
    store = SqliteStore(file)
    await store.open()
    await set_setting(store, "before")
    disk.sync_fails = True
    with pytest.raises(OutcomeUnknown, match="disk failed"):
        await set_setting(store, "during")
    disk.sync_fails = False
    syncs = disk.syncs
    for _ in range(3):
        with pytest.raises(Unavailable, match="disk of the database failed"):
            await set_setting(store, "after")
        with pytest.raises(Unavailable):
            await store.ping()
    assert disk.syncs == syncs
    await store.close()
    again = SqliteStore(file)
    await again.open()
    assert await again.setting("before") == ""
    assert await again.setting("after") is None
    await set_setting(again, "after")
    await again.close()


async def test_a_slow_disk_does_not_stop_the_event_loop(disk: FaultyDisk, file: Path) -> None:
    store = SqliteStore(file)
    await store.open()
    disk.sync_takes_s = 0.2
    writing = asyncio.create_task(set_setting(store, "k"))
    ticks = 0
    while not writing.done():
        await asyncio.sleep(0.005)
        ticks += 1
    disk.sync_takes_s = 0.0
    await store.close()
    assert ticks > 20


async def test_a_commit_that_is_cancelled_is_finished_first(disk: FaultyDisk, file: Path) -> None:
    store = SqliteStore(file)
    await store.open()
    disk.sync_takes_s = 0.1
    writing = asyncio.create_task(set_setting(store, "k", "v"))
    await asyncio.sleep(0.03)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await store.setting("k") == "v"
    await set_setting(store, "k", "w")
    assert await store.setting("k") == "w"
    await store.close()


# the log


async def test_the_log_is_bounded(store: SqliteStore, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "WAL_PAGES", 50)
    monkeypatch.setattr(sqlite, "WAL_PAGES_MAX", 200)
    for number in range(100):
        async with store.transaction() as tx:
            await tx.append_events([event(number, text="x" * 20_000)])
    assert log_bytes(file) < 300 * 4_200
    assert await store.event_range() == (1, 100)


async def test_a_long_read_is_cut_off_rather_than_the_log_growing(
    store: SqliteStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAL_PAGES", 50)
    monkeypatch.setattr(sqlite, "WAL_PAGES_MAX", 200)
    shape_id = await intern(store)
    await add_instances(store, [instance(number, shape_id=shape_id) for number in range(2_500)])
    scan = store.scan_instances()
    assert len(await anext(scan)) == 1_000
    for number in range(100):
        async with store.transaction() as tx:
            await tx.append_events([event(number, text="x" * 20_000)])
    with pytest.raises(Unavailable, match="cut off"):
        await anext(scan)
    assert log_bytes(file) < 300 * 4_200


async def test_a_store_closes_while_somebody_reads(file: Path) -> None:
    store = SqliteStore(file)
    await store.open()
    shape_id = await intern(store)
    await add_instances(store, [instance(number, shape_id=shape_id) for number in range(2_500)])
    scan = store.scan_instances()
    await anext(scan)
    await store.close()
    with pytest.raises(Unavailable):
        await anext(scan)


# figures that a change could spoil unnoticed; the bounds are ten times what it takes


@pytest.mark.slow
async def test_a_whole_fleet_is_read_quickly(store: SqliteStore) -> None:
    for start in range(0, 10_000, 1_000):
        await add_hosts(store, *(f"h{number:05}" for number in range(start, start + 1_000)))
    began_s = time.perf_counter()
    assert sum([len(chunk) async for chunk in store.all_hosts()]) == 10_000
    assert time.perf_counter() - began_s < 1.0


async def test_single_rows_are_read_quickly(store: SqliteStore) -> None:
    await add_instances(store, [instance(number) for number in range(1_000)])
    began_s = time.perf_counter()
    for number in range(1_000):
        assert await store.instance(key(number))
    assert time.perf_counter() - began_s < 0.2
