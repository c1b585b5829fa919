"""Statements on PostgreSQL: every batch is one statement over arrays, every call has a deadline."""

import contextlib
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import asyncpg

from virtflow.model.errors import Unavailable, VirtflowError
from virtflow.store.contract import RetryTransaction
from virtflow.store.failures import ImpossibleValue
from virtflow.store.session import Row

#: What a lost, refused or silent connection looks like; asyncpg has no types, so neither have connections here.
LOST = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)
ANY_FAILURE = (*LOST, asyncpg.PostgresError)

_RETRY = frozenset({"40001", "40P01"})
#: We look for clashes before we write: one that is found while writing came in between, and the next look will name it.
_CLASH = "23505"
_COPY = re.compile(r"COPY (?P<table>\w+) \((?P<columns>[^)]+)\) FROM STDIN")
_FULL = "53100"
_IMPOSSIBLE_VALUE = ("22", "23")
#: Classes in which the server says that the transaction did not happen: a constraint, an invalid state, a conflict.
_CERTAINLY_ROLLED_BACK = ("23", "25", "40")


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
    return Unavailable(
        f"the database does not answer: {str(error) or type(error).__name__}", remedy="try again in a moment"
    )


def is_certain(error: Exception) -> bool:
    """Is it sure that a COMMIT that ended like this did not happen?"""
    return _sqlstate(error).startswith(_CERTAINLY_ROLLED_BACK)


def _sqlstate(error: Exception) -> str:
    return getattr(error, "sqlstate", None) or ""


@contextlib.asynccontextmanager
async def borrowed(pool: Any, wait_s: float) -> AsyncIterator[Any]:
    """A connection of the pool; one that was closed meanwhile is replaced there."""
    try:
        connection = await pool.acquire(timeout=wait_s)
    except ANY_FAILURE as error:
        raise failure(error) from error
    try:
        yield connection
    finally:
        with contextlib.suppress(*ANY_FAILURE):  # it is thrown away then, and what was done stays done
            await pool.release(connection)


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
    """Single statements, each on a connection of the pool."""

    def __init__(self, pool: Any, statements: dict[str, str], wait_s: float) -> None:
        self._pool = pool
        self._statements = statements
        self._wait_s = wait_s

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        async with borrowed(self._pool, self._wait_s) as connection:
            return await ConnectionReader(connection, self._statements).rows(name, *arguments)


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
        changed = await self.rows(name, *map(list, zip(*rows, strict=True)))
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
