"""Statements on PostgreSQL: every batch is one statement over arrays, every call has a deadline."""

import contextlib
import functools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import asyncpg

from virtflow.model.errors import Unavailable, VirtflowError
from virtflow.store.contract import RetryTransaction
from virtflow.store.failures import ImpossibleValue
from virtflow.store.session import Row

#: What a lost, refused or silent connection looks like; asyncpg has no types, so neither have connections here.
LOST = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)
ANY_FAILURE = (*LOST, asyncpg.PostgresError)

_Result = TypeVar("_Result")
_RETRY = frozenset({"40001", "40P01"})
#: We look for clashes before we write: one that is found while writing came in between, and the next look will name it.
_CLASH = "23505"
#: asyncpg asks of each element of an array whether it is a list again: many numbers are said faster as one text
_AS_TEXT = re.compile(r"\$(\d+)::text::bigint\[\]")
_COPY = re.compile(r"COPY (?P<table>\w+) \((?P<columns>[^)]+)\) FROM STDIN")
#: A connection that breaks (08) and a server that shuts down or cannot take connections yet (57P).
_GOING_AWAY = ("08", "57P")
_FULL = "53100"
_IMPOSSIBLE_VALUE = ("22", "23")
#: Classes in which the server says that the transaction did not happen: a constraint, an invalid state, a conflict.
_CERTAINLY_ROLLED_BACK = ("23", "25", "40")


class ConnectionLost(Unavailable):
    """The connection is of no use any more; another one may be."""


def failure(error: Exception) -> VirtflowError:
    """The same in our words."""
    state = _sqlstate(error)
    if state in _RETRY:
        return RetryTransaction("two transactions waited for each other")
    if state == _CLASH:
        return RetryTransaction("somebody else was faster with a name or an id")
    if state == _FULL:
        return Unavailable("the disk of the database is full", remedy="make room; nothing was half written")
    if state.startswith(_IMPOSSIBLE_VALUE):
        return ImpossibleValue(f"the database refused an impossible value: {error}", remedy="run virtflow fsck")
    if isinstance(error, TimeoutError):
        return Unavailable("the database did not answer in time", remedy="try again in a moment")
    what = ConnectionLost if isinstance(error, LOST) or state.startswith(_GOING_AWAY) else Unavailable
    return what(f"the database does not answer: {str(error) or type(error).__name__}", remedy="try again in a moment")


def is_certain(error: Exception) -> bool:
    """Is it sure that a COMMIT that ended like this did not happen?"""
    return _sqlstate(error).startswith(_CERTAINLY_ROLLED_BACK)


def _sqlstate(error: Exception) -> str:
    return getattr(error, "sqlstate", None) or ""


async def repeated_when_lost(pool: Any, work: Callable[[], Awaitable[_Result]]) -> _Result:
    """Connections of the pool may have died unnoticed: what changes nothing is tried once more, on a new one."""
    try:
        return await work()
    except ConnectionLost:
        await pool.expire_connections()  # where one is dead, the others are
        return await work()


@contextlib.asynccontextmanager
async def begun(pool: Any, wait_s: float, begin: str) -> AsyncIterator[Any]:
    """A connection of the pool on which a transaction has begun. It is the caller's to end it."""
    connection = await repeated_when_lost(pool, lambda: _begin(pool, wait_s, begin))
    try:
        yield connection
    finally:
        await _give_back(pool, connection)


async def _begin(pool: Any, wait_s: float, begin: str) -> Any:
    connection = await _take(pool, wait_s)
    try:
        await run(connection, begin)
    except BaseException:
        await _give_back(pool, connection)
        raise
    return connection


async def _take(pool: Any, wait_s: float) -> Any:
    try:
        return await pool.acquire(timeout=wait_s)
    except ANY_FAILURE as error:
        raise failure(error) from error


async def _give_back(pool: Any, connection: Any) -> None:
    with contextlib.suppress(*ANY_FAILURE):  # it is thrown away then, and what was done stays done
        await pool.release(connection)


async def run(connection: Any, sql: str) -> str:
    try:
        with dropped_when_interrupted(connection):
            return str(await connection.execute(sql))
    except ANY_FAILURE as error:
        raise failure(error) from error


@contextlib.contextmanager
def dropped_when_interrupted(connection: Any) -> Iterator[None]:
    """A connection in the middle of a statement is of no use to anybody: only an answered one is kept."""
    try:
        yield
    except asyncpg.PostgresError:
        raise
    except BaseException:
        if not is_lost(connection):
            connection.terminate()
        raise


def is_lost(connection: Any) -> bool:
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:  # the pool took it back when it broke
        return True


class ConnectionReader:
    """Single statements on one connection."""

    def __init__(self, connection: Any, statements: dict[str, str]) -> None:
        self._connection = connection
        self._statements = statements

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        try:
            with dropped_when_interrupted(self._connection):
                found: Sequence[Row] = await self._connection.fetch(self._statements[name], *arguments)
        except ANY_FAILURE as error:
            raise failure(error) from error
        return found


class PoolReader:
    """Single statements, each on a connection of the pool. `before`: what must be done first, mostly nothing."""

    def __init__(
        self,
        pool: Any,
        statements: dict[str, str],
        wait_s: float,
        *,
        before: Callable[[Any], Awaitable[None]],
    ) -> None:
        self._pool = pool
        self._statements = statements
        self._wait_s = wait_s
        self._before = before

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        await self._before(self._pool)
        return await repeated_when_lost(self._pool, lambda: self._read(name, arguments))

    async def _read(self, name: str, arguments: Sequence[Any]) -> Sequence[Row]:
        connection = await _take(self._pool, self._wait_s)
        try:
            return await ConnectionReader(connection, self._statements).rows(name, *arguments)
        finally:
            await _give_back(self._pool, connection)


class TransactionSession:
    """One transaction. After an error, and after its end, it does nothing more."""

    def __init__(self, connection: Any, statements: dict[str, str]) -> None:
        self._connection = connection
        self._statements = statements
        self._closed: str | None = None
        self.error: Exception | None = None

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        with self._usable():
            found: Sequence[Row] = await self._connection.fetch(self._statements[name], *arguments)
        return found

    async def each(self, name: str, rows: Sequence[Row]) -> list[Row]:
        if not rows:
            return []
        if copy := _COPY.fullmatch(self._statements[name]):
            with self._usable():
                await self._connection.copy_records_to_table(
                    copy["table"], records=rows, columns=re.split(r",\s*", copy["columns"].strip())
                )
            return []
        changed = await self.rows(name, *_columns(self._statements[name], rows))
        if len(changed) == len(rows):
            return []
        keys = {row[0] for row in changed}
        return [row for row in rows if row[-1] not in keys]

    def close(self, reason: str) -> None:
        self._closed = self._closed or reason

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        if self._closed:  # the connection may be somebody else's by now
            raise Unavailable(f"this transaction is over: {self._closed}")
        try:
            with dropped_when_interrupted(self._connection):
                yield
        except ANY_FAILURE as error:
            self.error = error
            self.close(str(error) or type(error).__name__)
            raise failure(error) from error


def _columns(statement: str, rows: Sequence[Row]) -> list[Any]:
    """One argument for each column."""
    columns: list[Any] = list(map(list, zip(*rows, strict=True)))
    for number in _columns_as_text(statement):
        columns[number - 1] = f"{{{','.join(map(str, columns[number - 1]))}}}"
    return columns


@functools.cache
def _columns_as_text(statement: str) -> frozenset[int]:
    return frozenset(int(number) for number in _AS_TEXT.findall(statement))
