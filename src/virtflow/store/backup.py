"""Every row of one moment, whatever is written meanwhile: both databases say it in the same words."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from virtflow.store import migrations, postgres_connect
from virtflow.store.dump import FORMAT, ROWS_PER_FRAME, Head, Numbering, Rows
from virtflow.store.failures import UnusableDatabase
from virtflow.store.postgres import refusals as postgresql_refusals
from virtflow.store.sqlite import refusals as sqlite_refusals
from virtflow.store.sqlite_session import connect
from virtflow.store.statements import Dialect

#: what processes that run say of themselves, and what the tables are: neither is restored
NOT_TAKEN = frozenset({"schema", "lease", "process"})
#: they refer to others, which are to be there first
LAST = ("room",)

Said = Head | Rows | Numbering


async def take(url: str, *, program: str) -> AsyncIterator[Said]:
    """The frames of a dump. UnusableDatabase when there is nothing to take, or nothing this program knows."""
    if url.startswith("sqlite:"):
        for frame in _take_sqlite(Path(unquote(url.removeprefix("sqlite:///"))), url, program):
            yield frame
            await asyncio.sleep(0)
        return
    async for frame in _take_postgresql(url, program):
        yield frame


def _head(url: str, *, dialect: Dialect, version: int, program: str, history_id: str, newest_event: int) -> Head:
    migrations.missing(migrations.steps(dialect), version, url=url)  # refuses what a newer program has made
    return Head(
        format=FORMAT, version=version, program=program, database=dialect, history_id=history_id,
        newest_event=newest_event, taken_ms=time.time_ns() // 1_000_000,
    )  # fmt: skip


def _nothing_there(url: str) -> UnusableDatabase:
    return UnusableDatabase(url, cause="there are no tables of virtflow in it", remedy="name the database to back up")


def in_order(tables: Sequence[str]) -> list[str]:
    return sorted((table for table in tables if table not in NOT_TAKEN), key=lambda name: (name in LAST, name))


# SQLite


def _take_sqlite(file: Path, url: str, program: str) -> Iterator[Said]:
    with sqlite_refusals(file), contextlib.ExitStack() as stack:
        if not file.exists():
            raise FileNotFoundError(f"there is no file {file}")
        connection = connect(file, reading=True, patience_s=5.0)
        stack.callback(connection.close)
        connection.execute("BEGIN")
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        if "schema" not in tables:
            raise _nothing_there(url)
        yield _head(
            url,
            dialect="sqlite",
            version=connection.execute("SELECT max(version) FROM schema").get,
            program=program,
            history_id=connection.execute("SELECT value FROM setting WHERE key = 'history_id'").get,
            newest_event=connection.execute("SELECT value FROM counter WHERE name = 'event'").get,
        )
        for table in in_order([name for name in tables if not name.startswith("sqlite_")]):
            columns = tuple(row[1] for row in connection.execute(f"PRAGMA table_info({quoted(table)})"))
            cursor = connection.execute(_select(table, columns))
            while rows := [row for row, _ in zip(cursor, range(ROWS_PER_FRAME), strict=False)]:
                yield Rows(table=table, columns=columns, rows=rows)
        yield Numbering(last=dict(connection.execute("SELECT name, seq FROM sqlite_sequence")))


# PostgreSQL


async def _take_postgresql(url: str, program: str) -> AsyncIterator[Said]:
    with postgresql_refusals(url):
        connection = await postgres_connect.connect(url, timeout=10, target_session_attrs=None)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                await connection.execute("SET LOCAL statement_timeout = 0")
                async for frame in _take_all(connection, url, program):
                    yield frame
        finally:
            connection.terminate()


async def _take_all(connection: Any, url: str, program: str) -> AsyncIterator[Said]:
    tables = await connection.fetch("SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()")
    if "schema" not in {row[0] for row in tables}:
        raise _nothing_there(url)
    yield _head(
        url,
        dialect="postgresql",
        version=await connection.fetchval("SELECT max(version) FROM schema"),
        program=program,
        history_id=await connection.fetchval("SELECT value FROM setting WHERE key = 'history_id'"),
        newest_event=await connection.fetchval("SELECT value FROM counter WHERE name = 'event'"),
    )
    for table in in_order([row[0] for row in tables]):
        columns = tuple(row[0] for row in await connection.fetch(COLUMNS, table))
        rows: list[tuple[Any, ...]] = []
        async for row in connection.cursor(_select(table, columns), prefetch=ROWS_PER_FRAME):
            rows.append(tuple(row))
            if len(rows) == ROWS_PER_FRAME:
                yield Rows(table=table, columns=columns, rows=rows)
                rows = []
        if rows:
            yield Rows(table=table, columns=columns, rows=rows)
    yield Numbering(last=await _numbering(connection))


#: name and type of the columns of a table, and whether the database gives their numbers
COLUMNS = """
    SELECT column_name::text, data_type::text, is_identity = 'YES' FROM information_schema.columns
    WHERE table_schema = current_schema() AND table_name = $1
    ORDER BY ordinal_position
"""


async def _numbering(connection: Any) -> dict[str, int]:
    numbered = await connection.fetch(
        "SELECT table_name::text, pg_get_serial_sequence(quote_ident(table_name), column_name) "
        "FROM information_schema.columns WHERE table_schema = current_schema() AND is_identity = 'YES'"
    )
    last = {}
    for table, sequence in numbered:
        value, is_called = await connection.fetchrow(f"SELECT last_value, is_called FROM {sequence}")  # noqa: S608  # its own name
        last[table] = value if is_called else 0
    return last


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _select(table: str, columns: Sequence[str]) -> str:
    return f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(table)}"  # noqa: S608  # names of the catalogue
