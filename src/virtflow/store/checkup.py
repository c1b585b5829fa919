"""Is the database fit for us? Looks without changing a row, and without the lock of whoever uses it."""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import apsw
import asyncpg

from virtflow.model.errors import VirtflowError
from virtflow.model.finding import Finding, bad, ok, warn
from virtflow.model.servers import each_server
from virtflow.store import migrations
from virtflow.store.lock import FileLock, Mark
from virtflow.store.postgres import CONNECTIONS_MAX, VERSION_MIN, refusals
from virtflow.store.postgres_connect import ANY, PRIMARY, connect
from virtflow.store.statements import Dialect

PART = "database"
#: a commit waits for one of these; beyond it, nothing is fast any more
FSYNC_MS_WARN = 20.0
FSYNC_TRIES = 15
SKEW_S_WARN = 1.0
DISK_BYTES_WARN, DISK_BYTES_BAD = 1 * 2**30, 100 * 2**20
#: the byte at this place of the file says that it is written by way of a log
_WAL_PLACE, _WAL = 18, b"\x02"
#: on them a lock is no lock and shared memory is not shared
_NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs"})


# SQLite


def check_sqlite(url: str) -> Iterator[Finding]:
    """Waits for nobody but the disk."""
    if url.removeprefix("sqlite:") in {"", "//"}:
        yield warn(PART, "it lives in memory and is gone at the end", "name a file in database_url")
        return
    file = Path(unquote(url.removeprefix("sqlite:///")))
    if not file.parent.is_dir():
        yield ok(PART, f"{file} will be made with its folder at the first start")
        return
    yield from _check_folder(file.parent)
    if not file.exists():
        yield ok(PART, f"{file} will be made at the first start")
        return
    yield from _check_rights(file)
    mark = _mark_of(file)
    yield _judge_mark(mark)
    # who looks at a file that nobody uses must not make the files beside it
    yield from _check_content(file, url, is_in_use=isinstance(mark, Mark) and bool(mark.owner))


def _check_folder(folder: Path) -> Iterator[Finding]:
    kind = file_system_of(folder)
    if kind in _NETWORK_FILE_SYSTEMS:
        yield bad(PART, f"{folder} is on a network file system ({kind})", "put the file on a local disk")
    yield from check_space(PART, folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        yield bad(PART, f"{folder} cannot be written", f"chown it to the user that runs virtflow: {folder}")
        return
    try:
        waited_ms = _fsync_ms(folder)
    except OSError as error:
        yield bad(PART, f"{folder} cannot be written: {error.strerror}", "make room, or correct the rights")
        return
    yield _judge_fsync(f"an fsync in {folder}", waited_ms)


def check_space(part: str, folder: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(folder).free
    text = f"{free / 2**30:.1f} GiB are free in {folder}"
    if free < DISK_BYTES_BAD:
        yield bad(part, text, "make room before anything else is written")
    elif free < DISK_BYTES_WARN:
        yield warn(part, text, "make room; events_keep bounds the largest table")
    else:
        yield ok(part, text)


def _fsync_ms(folder: Path) -> float:
    with tempfile.TemporaryFile(dir=folder) as file:
        return statistics.median(_one_fsync_ms(file.fileno()) for _ in range(FSYNC_TRIES))


def _one_fsync_ms(descriptor: int) -> float:
    began_s = time.perf_counter()
    os.pwrite(descriptor, b"x" * 4096, 0)
    os.fsync(descriptor)
    return (time.perf_counter() - began_s) * 1000


def _judge_fsync(what: str, waited_ms: float) -> Finding:
    text = f"{what} takes {waited_ms:.2f} ms"
    if waited_ms <= FSYNC_MS_WARN:
        return ok(PART, text)
    return warn(PART, text, "every commit waits that long: use a disk with a write cache that survives a power cut")


def _check_rights(file: Path) -> Iterator[Finding]:
    mode = file.stat().st_mode
    if mode & 0o077:
        yield warn(PART, f"others may read {file} (mode {mode & 0o777:o})", f"chmod 600 {file}")
    if not os.access(file, os.R_OK | os.W_OK):
        yield bad(PART, f"{file} cannot be read and written", f"chown it to the user that runs virtflow: {file}")


def _mark_of(file: Path) -> Mark | OSError:
    try:
        return FileLock.look(file.with_name(file.name + ".lock"))
    except OSError as error:
        return error


def _judge_mark(mark: Mark | OSError) -> Finding:
    if isinstance(mark, OSError):
        return bad(PART, f"its lock cannot be read: {mark}", "chown the files to the user that runs virtflow")
    if mark.owner:
        return ok(PART, f"{mark.owner} uses it")
    if mark.was_left_cleanly:
        return ok(PART, "nobody uses it, and the last process said goodbye")
    return ok(PART, "nobody uses it; the last process was killed, so the next start checks the file")


def _check_content(file: Path, url: str, *, is_in_use: bool) -> Iterator[Finding]:
    place = f"file:{quote(str(file))}?mode=ro" + ("" if is_in_use or _has_log(file) else "&immutable=1")
    try:
        connection = apsw.Connection(place, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            connection.set_busy_timeout(1000)
            version = _sqlite_version(connection)
        finally:
            connection.close()
    except apsw.Error as error:
        yield bad(PART, f"{file} cannot be read: {error}", "restore the last backup (virtflow restore)")
        return
    yield _judge_version("sqlite", version, url)
    if version and not _is_wal(file):
        yield warn(PART, "its journal mode is not WAL", "the next start sets it back; find out who changed it")


def _is_wal(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(_WAL_PLACE + 1)[_WAL_PLACE:] == _WAL


def _has_log(file: Path) -> bool:
    """What was written last may stand there and not in the file yet."""
    log = file.with_name(file.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def _sqlite_version(connection: apsw.Connection) -> int:
    if not connection.table_exists(None, "schema"):
        return 0
    return int(connection.execute("SELECT max(version) FROM schema").get or 0)


def _judge_version(dialect: Dialect, version: int, url: str) -> Finding:
    known = migrations.steps(dialect)
    try:
        missing = migrations.missing(known, version, url=url)
    except VirtflowError as error:
        return bad(PART, error.detail, error.remedy)
    if not version:
        return ok(PART, "it is empty; the first start makes the tables")
    if missing:
        return warn(
            PART,
            f"its tables are of version {version}; the next start brings them to {migrations.newest(known)}",
            "take a backup first (virtflow backup); the previous version may go on running meanwhile",
        )
    return ok(PART, f"its tables are of version {version}, the newest this program knows")


def file_system_of(folder: Path) -> str:
    """Its kind, such as ext4; empty where the system does not tell."""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in mounts:
        place, name = line.split(" ")[1:3]
        if folder.resolve().is_relative_to(place) and len(place) >= len(best):
            best, kind = place, name
    return kind


# PostgreSQL


async def check_postgresql(url: str, *, wait_s: float) -> list[Finding]:
    """Ends within about `wait_s`."""
    try:
        with refusals(url):
            # of several servers the primary; of a single one it is told below what it is
            wanted = PRIMARY if len(each_server(url)) > 1 else ANY
            connection = await connect(url, timeout=wait_s / 2, command_timeout=wait_s / 2, target_session_attrs=wanted)
    except VirtflowError as error:
        return [bad(PART, error.detail, error.remedy)]
    found: list[Finding] = []
    try:
        await _look_around(connection, url, found)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        what = str(error) or type(error).__name__
        found.append(bad(PART, f"it stopped answering: {what}", "look at the log of the database server"))
    finally:
        connection.terminate()
    return found


async def _look_around(connection: Any, url: str, found: list[Finding]) -> None:
    number = int(await connection.fetchval("SHOW server_version_num")) // 10_000
    found.append(
        ok(PART, f"PostgreSQL {number} answers")
        if number >= VERSION_MIN
        else bad(PART, f"PostgreSQL {number} is too old", f"upgrade it to {VERSION_MIN} or newer")
    )
    if await connection.fetchval("SELECT pg_is_in_recovery()"):
        found.append(bad(PART, "it is a replica and can only be read", "name the primary, or all servers"))
        return
    found.append(ok(PART, "it is the primary"))
    found += await _check_durability(connection)
    found += await _check_privileges(connection)
    found += await _check_connections(connection)
    found.append(await _check_clock(connection))
    version = 0
    if await connection.fetchval("SELECT to_regclass('schema')") is not None:
        version = await connection.fetchval("SELECT max(version) FROM schema") or 0
    found.append(_judge_version("postgresql", version, url))


async def _check_durability(connection: Any) -> list[Finding]:
    found = []
    for name, says in (("fsync", "a power cut loses or breaks the database"), ("full_page_writes", "a crash may")):
        if await connection.fetchval(f"SHOW {name}") != "on":
            found.append(bad(PART, f"{name} is off on the server: {says}", f"set {name} = on in postgresql.conf"))
    waits = []
    for _ in range(FSYNC_TRIES):
        began_s = time.perf_counter()
        # a message in the log that nobody reads: a commit that writes, and changes no row
        await connection.fetchval("SELECT pg_logical_emit_message(true, 'virtflow', 'checkup')")
        waits.append((time.perf_counter() - began_s) * 1000)
    return [*found, _judge_fsync("a commit", statistics.median(waits))]


async def _check_privileges(connection: Any) -> list[Finding]:
    found = []
    user, schema = await connection.fetchrow("SELECT current_user, current_schema()")
    if schema is None or not await connection.fetchval("SELECT has_schema_privilege(current_schema(), 'CREATE')"):
        remedy = f"GRANT CREATE ON SCHEMA {schema or 'public'} TO {user}"
        found.append(bad(PART, f"user {user} may not make tables", remedy))
    foreign = await connection.fetch(
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() "
        "AND NOT pg_has_role(current_user, tableowner, 'USAGE') ORDER BY 1"
    )
    if foreign:
        names = ", ".join(row[0] for row in foreign[:3])
        found.append(
            bad(PART, f"tables belong to somebody else ({names})", f"make {user} their owner, or a member of it")
        )
    return found or [ok(PART, f"user {user} may make tables and owns those that are there")]


async def _check_connections(connection: Any) -> list[Finding]:
    # a process uses the pool, and one connection each to listen and for its offices
    needed = CONNECTIONS_MAX + 3
    most, used = await connection.fetchrow(
        "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int, "
        "(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int"
    )
    text = f"{most - used} of {most} connections are free; a process of ours takes up to {needed}"
    if most - used < needed:
        return [warn(PART, text, "raise max_connections of the server, or run fewer processes")]
    return [ok(PART, text)]


async def _check_clock(connection: Any) -> Finding:
    before_s = time.time()
    theirs_s = float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8"))
    after_s = time.time()
    skew_s = max(0.0, before_s - theirs_s, theirs_s - after_s)
    text = f"its clock and ours are {skew_s:.3f} s apart"
    if skew_s > SKEW_S_WARN:
        return warn(
            PART,
            text,
            "let both follow the same time servers: deadlines and times in answers go by the clock of the database",
        )
    return ok(PART, text)
