"""Statements on SQLite: inline where they are short, in threads and packed where they are long."""

import asyncio
import contextlib
import functools
import itertools
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw
import msgspec

from virtflow.model.errors import Unavailable, VirtflowError
from virtflow.store.failures import ImpossibleValue
from virtflow.store.session import Row, to_the_end

#: Statements of one batch that run before the event loop gets its turn.
ROWS_AT_ONCE = 2_000
#: From here on a batch is written beside the event loop; smaller ones would wait longer for the thread than it saves.
ROWS_BESIDE = 256
#: A power of two, and short enough that apsw keeps the prepared statement (it keeps none above 16 KiB).
ROWS_PER_STATEMENT = 256
CACHE_KIB = 32 * 1024
#: A log that was copied into the file is cut to this.
WAL_BYTES_KEPT = 32 * 2**20

_STATEMENTS_CACHED = 256
_LOST_WRITES = frozenset(
    {apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC, apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_TRUNCATE}
)
#: Few rows that are long already: packing them would only copy.
_NOT_PACKED = frozenset({"events_after", "events_between"})
#: Who reads everything has no busy event loop beside it.
_NEVER_PACKED = "history_"

_VALUES = re.compile(r"VALUES \((\$1(?:, \$\d+)*)\)")
_Result = TypeVar("_Result")
_unpack = msgspec.json.Decoder(list[list[Any]]).decode


def connect(file: Path, *, reading: bool, patience_s: float = 0) -> apsw.Connection:
    connection = apsw.Connection(str(file), statementcachesize=_STATEMENTS_CACHED)
    connection.set_busy_timeout(int(patience_s * 1000))
    connection.pragma("cache_size", -CACHE_KIB)
    connection.pragma("temp_store", "memory")
    connection.pragma("foreign_keys", 1)
    if reading:
        connection.pragma("query_only", 1)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return connection


def is_fatal(error: BaseException | None) -> bool:
    """After these nobody knows what is on the disk, and trying again could hide that."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return True
    return isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) in _LOST_WRITES


def failure(error: apsw.Error) -> VirtflowError:
    """The same in our words."""
    if isinstance(error, apsw.FullError):
        return Unavailable("the disk of the database is full", remedy="make room; nothing was half written")
    if isinstance(error, apsw.BusyError):
        return Unavailable("another program holds the database file", remedy="stop it; only virtflow may write there")
    if isinstance(error, apsw.ConstraintError):
        return ImpossibleValue(f"the database refused an impossible value: {error}", remedy="run virtflow fsck")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Unavailable(f"the database file is damaged: {error}", remedy="stop, and restore the last backup")
    return Unavailable(f"the database does not answer: {error}", remedy="look at its disk and its file rights")


class Threads:
    """Where work is done beside the event loop; with 0 of them it is done in place."""

    def __init__(self, number: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(number, thread_name_prefix=f"store-{name}") if number else None

    async def run(self, work: Callable[[], _Result]) -> _Result:
        if self._pool is None:
            return work()
        return await to_the_end(asyncio.get_running_loop().run_in_executor(self._pool, work))

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown()


class InlineSession:
    """Runs on the event loop: a short statement costs less than the way to a thread and back."""

    def __init__(self, connection: apsw.Connection, statements: dict[str, str]) -> None:
        self._connection = connection
        self._statements = statements

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        try:
            return self._connection.execute(self._statements[name], bindings(arguments)).fetchall()
        except apsw.Error as error:
            raise failure(error) from error


class WriteSession:
    """One transaction of the writing connection. After an error, and after its end, it does nothing more."""

    def __init__(self, connection: apsw.Connection, statements: dict[str, str], threads: Threads) -> None:
        self._connection = connection
        self._statements = statements
        self._threads = threads
        self._changes_before = connection.total_changes()
        self._closed: str | None = None
        self.error: apsw.Error | None = None

    @property
    def has_changed_something(self) -> bool:
        return self._connection.total_changes() != self._changes_before

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        with self._usable():
            return self._connection.execute(self._statements[name], bindings(arguments)).fetchall()

    async def each(self, name: str, rows: Sequence[Row]) -> list[Row]:
        if len(rows) >= ROWS_BESIDE and await self._all_beside(name, rows):
            return []
        refused: list[Row] = []
        for start in range(0, len(rows), ROWS_AT_ONCE):
            if start:
                await asyncio.sleep(0)
            with self._usable():
                self._connection.executemany(
                    self._statements[name], self._fed(rows[start : start + ROWS_AT_ONCE], refused)
                )
        return refused

    async def _all_beside(self, name: str, rows: Sequence[Row]) -> bool:
        """In a thread, many rows to a statement. False: some were refused, so none was taken; say which, one by one."""
        many = many_rows(self._statements.get(f"{name}_at_once", self._statements[name]))
        if many is None:
            return False
        with self._usable():
            return await self._threads.run(lambda: self._take_all(many, rows))

    def _take_all(self, many: "ManyRows", rows: Sequence[Row]) -> bool:
        before = self._connection.total_changes()
        self._connection.execute("SAVEPOINT beside")
        for start, size in _pieces(len(rows)):
            values = list(itertools.chain.from_iterable(rows[start : start + size]))
            self._connection.execute(many.saying(size), values)
        if self._connection.total_changes() - before == len(rows):
            self._connection.execute("RELEASE beside")
            return True
        self._connection.execute("ROLLBACK TO beside")
        self._connection.execute("RELEASE beside")
        return False

    def close(self, reason: str) -> None:
        self._closed = self._closed or reason

    def _fed(self, rows: Sequence[Row], refused: list[Row]) -> Iterator[Row]:
        """SQLite asks for the next row when it is done with the last one: the moment to see what that changed."""
        changes = self._connection.changes
        for row in rows:
            yield row
            if not changes():
                refused.append(row)

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        if self._closed:  # the connection may be in the next transaction, or in none
            raise Unavailable(f"this transaction is over: {self._closed}")
        try:
            yield
        except apsw.Error as error:
            self.error = error
            self.close(str(error))
            raise failure(error) from error


class ManyRows:
    """A statement with one `VALUES ($1, …)`, said for many rows at once: one step, in which the interpreter is free.

    Row by row, a thread would have to win the interpreter back from a busy event loop after each of them.
    """

    def __init__(self, head: str, row: str, tail: str) -> None:
        self._head = head
        self._row = f"({', '.join('?' * row.count('$'))})".replace(" ", "")
        self._tail = tail
        self._said: dict[int, str] = {}

    def saying(self, rows: int) -> str:
        if rows not in self._said:
            self._said[rows] = f"{self._head}VALUES {','.join([self._row] * rows)}{self._tail}"
        return self._said[rows]


@functools.cache
def many_rows(statement: str) -> ManyRows | None:
    """None: this statement cannot be said for many rows."""
    parts = _VALUES.split(statement)
    return ManyRows(*parts) if len(parts) == 3 else None


def _pieces(rows: int) -> Iterator[tuple[int, int]]:
    """Start and size of each statement: few sizes, so that each is prepared once."""
    start, size = 0, ROWS_PER_STATEMENT
    while start < rows:
        while size > rows - start:
            size //= 2
        yield start, size
        start += size


class PackedSession:
    """Runs in threads. SQLite packs the whole answer into one JSON text, so that it comes in one step.

    Between two steps the thread would have to win the interpreter back from a busy event loop, for every row.
    """

    def __init__(self, connections: Sequence[apsw.Connection], threads: Threads, statements: dict[str, str]) -> None:
        self._idle: SimpleQueue[apsw.Connection] = SimpleQueue()
        for connection in connections:
            self._idle.put(connection)
        self._threads = threads
        self._statements = statements

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        try:
            return await self._threads.run(lambda: self._run(name, arguments))
        except apsw.Error as error:
            raise failure(error) from error

    def _run(self, name: str, arguments: Sequence[Any]) -> Sequence[Row]:
        connection = self._idle.get()
        try:
            if name in _NOT_PACKED or name.startswith(_NEVER_PACKED):
                return connection.execute(self._statements[name], bindings(arguments)).fetchall()
            return _packed_rows(connection, self._statements[name], bindings(arguments))
        finally:
            self._idle.put(connection)


_packings: dict[str, tuple[str, tuple[int, ...]]] = {}


def _packed_rows(connection: apsw.Connection, sql: str, arguments: Sequence[Any]) -> Sequence[Row]:
    if sql not in _packings:
        _packings[sql] = _packing(connection, sql, arguments)
    packed, blobs = _packings[sql]
    rows = _unpack(connection.execute(packed, arguments).get)
    for place in blobs:
        for row in rows:
            if row[place] is not None:
                row[place] = bytes.fromhex(row[place])
    return rows


def _packing(connection: apsw.Connection, sql: str, arguments: Sequence[Any]) -> tuple[str, tuple[int, ...]]:
    """The statement that packs, and which columns hold bytes: JSON has none, so they travel in hexadecimal."""
    types = _column_types(connection, sql, arguments)
    blobs = tuple(place for place, kind in enumerate(types) if kind == "BLOB")
    names = [f"c{place}" for place in range(len(types))]
    values = [f"iif({name} IS NULL, NULL, hex({name}))" if i in blobs else name for i, name in enumerate(names)]
    page, packed = (
        f"WITH page ({', '.join(names)}) AS (\n{sql}\n)",
        f"json_group_array(json_array({', '.join(values)}))",
    )
    return f"{page} SELECT {packed} FROM page", blobs  # noqa: S608  the names are c0, c1, …


def _column_types(connection: apsw.Connection, sql: str, arguments: Sequence[Any]) -> list[str | None]:
    found: list[str | None] = []

    def look(cursor: apsw.Cursor, _sql: str, _arguments: object) -> bool:
        found.extend(column[1] for column in cursor.description_full)
        return False

    cursor = connection.cursor()
    cursor.exec_trace = look
    with contextlib.suppress(apsw.ExecTraceAbort):
        cursor.execute(sql, arguments)
    return found


def bindings(arguments: Sequence[Any]) -> Sequence[Any]:
    if list not in map(type, arguments):
        return arguments
    return [_array(argument) if type(argument) is list else argument for argument in arguments]


def _array(values: list[Any]) -> object:
    if not values:
        raise ValueError("an empty array has no type; ask nothing instead")
    return apsw.carray(array("q", values) if isinstance(values[0], int) else tuple(values))
