"""A backup becomes a database: whole or not at all, into an empty place, with a history of its own."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import apsw
import asyncpg

from virtflow.store import migrations, postgres_connect
from virtflow.store.backup import COLUMNS, quoted
from virtflow.store.dump import DamagedBackup, Head, Numbering, Rows, check_dump, read_dump
from virtflow.store.failures import UnusableDatabase
from virtflow.store.interned import Interned
from virtflow.store.lock import FileLock
from virtflow.store.migrations import Step
from virtflow.store.postgres import MIGRATION_LOCK
from virtflow.store.postgres import refusals as postgresql_refusals
from virtflow.store.postgres_session import TransactionSession
from virtflow.store.records import Writes
from virtflow.store.sqlite import SqliteStore
from virtflow.store.sqlite import refusals as sqlite_refusals
from virtflow.store.sqlite_session import connect
from virtflow.store.statements import Dialect, statements


async def put_back(url: str, file: Path, *, at_ms: int) -> tuple[Head, int]:
    """What it was and how many rows. Reads the file twice: what is damaged is refused before anything is begun."""
    head, tail = check_dump(file)
    dialect: Dialect = "sqlite" if url.startswith("sqlite:") else "postgresql"
    known = migrations.steps(dialect)
    if head.version > migrations.newest(known):
        raise DamagedBackup(
            file,
            f"its tables are of version {head.version}, and this program knows them up to {migrations.newest(known)}",
        )
    if dialect == "sqlite":
        await _into_sqlite(Path(unquote(url.removeprefix("sqlite:///"))), url, file, head, at_ms)
    else:
        await _into_postgresql(url, file, head, at_ms)
    return head, tail.rows


def _not_empty(url: str, what: str) -> UnusableDatabase:
    return UnusableDatabase(url, cause=f"{what}, and a backup replaces nothing", remedy="name an empty database")


def _steps(dialect: Dialect, head: Head) -> tuple[list[Step], list[Step]]:
    """Those that made the tables of the backup, and those since then: they change rows, too."""
    known = migrations.steps(dialect)
    return [step for step in known if step.version <= head.version], [
        step for step in known if step.version > head.version
    ]


# SQLite


async def _into_sqlite(target: Path, url: str, file: Path, head: Head, at_ms: int) -> None:
    with sqlite_refusals(target), contextlib.ExitStack() as stack:
        unfinished = _reserve(target, url, stack)
        _fill(unfinished, file, head)
        store = SqliteStore(unfinished)
        await store.open()  # the steps since then
        try:
            async with store.transaction() as tx:
                await tx.begin_history(str(uuid4()), at_ms=at_ms)
        finally:
            await store.close()
        unfinished.rename(target)


def _reserve(target: Path, url: str, stack: contextlib.ExitStack) -> Path:
    """Nobody starts on it meanwhile; what is filled beside it becomes it at the end."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(target.with_name(target.name + ".lock"))
    stack.callback(lock.leave, cleanly=True)
    if target.exists():
        raise _not_empty(url, "the file exists")
    unfinished = target.with_name(target.name + ".restoring")
    _remove(unfinished)
    stack.callback(_remove, unfinished)
    unfinished.touch(mode=0o600)
    return unfinished


def _remove(file: Path) -> None:
    for ending in ("", "-wal", "-shm", ".lock"):
        file.with_name(file.name + ending).unlink(missing_ok=True)


def _fill(target: Path, file: Path, head: Head) -> None:
    connection = connect(target, reading=False)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE schema (version INTEGER NOT NULL) STRICT")
        for step in _steps("sqlite", head)[0]:
            connection.execute(step.sql)
            connection.execute("INSERT INTO schema (version) VALUES ($1)", (step.version,))
        emptied: set[str] = set()
        for frame in read_dump(file):
            if isinstance(frame, Rows):
                if frame.table not in emptied:  # the steps have put their own first rows there
                    connection.execute(f"DELETE FROM {quoted(frame.table)}")  # noqa: S608  # names of a checked backup
                    emptied.add(frame.table)
                connection.executemany(_insert(frame), frame.rows)
            elif isinstance(frame, Numbering):
                _number_on(connection, frame)
        connection.execute("COMMIT")
    except apsw.SQLError as error:
        raise DamagedBackup(file, f"it does not fit the tables of version {head.version} ({error})") from error
    finally:
        connection.close()


def _insert(frame: Rows) -> str:
    places = ", ".join("?" * len(frame.columns))
    return f"INSERT INTO {quoted(frame.table)} ({', '.join(map(quoted, frame.columns))}) VALUES ({places})"  # noqa: S608


def _number_on(connection: apsw.Connection, frame: Numbering) -> None:
    numbered = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
    for (table,) in list(connection.execute(numbered)):
        last = frame.last.get(str(table), 0)
        connection.execute("DELETE FROM sqlite_sequence WHERE name = $1 AND seq < $2", (table, last))
        connection.execute(
            "INSERT INTO sqlite_sequence (name, seq) SELECT $1, $2 "
            "WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = $1)",
            (table, last),
        )


# PostgreSQL


async def _into_postgresql(url: str, file: Path, head: Head, at_ms: int) -> None:
    with postgresql_refusals(url):
        connection = await postgres_connect.connect(url, timeout=10)
        try:
            async with connection.transaction():
                await _fill_and_begin(connection, url, file, head, at_ms)
        finally:
            connection.terminate()


async def _fill_and_begin(connection: Any, url: str, file: Path, head: Head, at_ms: int) -> None:
    await connection.execute("SET LOCAL statement_timeout = 0")
    # whoever starts meanwhile waits, and finds everything done
    await connection.execute(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
    if await connection.fetchval("SELECT to_regclass('schema')") is not None:
        raise _not_empty(url, "there are tables of virtflow in it")
    await connection.execute("CREATE TABLE schema (version BIGINT NOT NULL)")
    before, since = _steps("postgresql", head)
    await _step(connection, before)
    try:
        await _fill_tables(connection, file)
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.SyntaxOrAccessError) as error:
        raise DamagedBackup(file, f"it does not fit the tables of version {head.version} ({error})") from error
    await _step(connection, since)
    session = TransactionSession(connection, statements("postgresql"))
    await Writes(session, Interned(), "").begin_history(str(uuid4()), at_ms=at_ms)


async def _step(connection: Any, steps: Sequence[Step]) -> None:
    for step in steps:
        await connection.execute(step.sql)
        await connection.execute("INSERT INTO schema (version) VALUES ($1)", step.version)


async def _fill_tables(connection: Any, file: Path) -> None:
    truths: dict[str, frozenset[str]] = {}
    for frame in read_dump(file):
        if isinstance(frame, Rows):
            if frame.table not in truths:
                truths[frame.table] = await _begin_table(connection, frame.table)
            await connection.copy_records_to_table(
                frame.table, columns=list(frame.columns), records=_with_truths(frame, truths[frame.table])
            )
        elif isinstance(frame, Numbering):
            await _number_on_there(connection, frame)


async def _begin_table(connection: Any, table: str) -> frozenset[str]:
    """Empty, since the steps have put their own first rows there. Its columns of true and false."""
    await connection.execute(f"DELETE FROM {quoted(table)}")  # noqa: S608  # names of a checked backup
    return frozenset(name for name, kind, _ in await connection.fetch(COLUMNS, table) if kind == "boolean")


def _with_truths(frame: Rows, truths: frozenset[str]) -> Iterator[Sequence[Any]]:
    """SQLite has numbers for true and false."""
    places = [place for place, name in enumerate(frame.columns) if name in truths]
    if not places:
        return iter(frame.rows)
    return (
        [bool(value) if place in places and value is not None else value for place, value in enumerate(row)]
        for row in frame.rows
    )


async def _number_on_there(connection: Any, frame: Numbering) -> None:
    numbered = await connection.fetch(
        "SELECT table_name::text, column_name::text FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND is_identity = 'YES'"
    )
    for table, column in numbered:
        highest = await connection.fetchval(f"SELECT max({quoted(column)}) FROM {quoted(table)}")  # noqa: S608
        last = max(highest or 0, frame.last.get(table, 0))
        if last:
            await connection.execute("SELECT setval(pg_get_serial_sequence($1, $2), $3)", quoted(table), column, last)
