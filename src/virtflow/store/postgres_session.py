"""Statements on PostgreSQL: every batch is one statement over arrays, every call has a deadline."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import asyncpg

from virtflow.model.errors import Unavailable, VirtflowError
from virtflow.store.contract import RetryTransaction
from virtflow.store.failures import LedgerViolated
from virtflow.store.session import Row

#: SQLSTATE classes in which the server says that the transaction did not happen:
#: a constraint, an invalid state, a deadlock or a serialisation failure.
_CERTAINLY_ROLLED_BACK = ("23", "25", "40")
_RETRY = frozenset({"40001", "40P01"})
_FULL = frozenset({"53100"})
_CONSTRAINT = "23"

#: What a lost, refused or silent connection looks like.
LOST = (OSError, TimeoutError, asyncpg.InterfaceError)


def failure(error: Exception) -> VirtflowError:
    """The same in our words."""
    state = getattr(error, "sqlstate", None) or ""
    if state in _RETRY:
        return RetryTransaction("two transactions waited for each other")
    if state in _FULL:
        return Unavailable("the disk of the database is full", remedy="make room; nothing was half written")
    if state.startswith(_CONSTRAINT):
        return LedgerViolated(f"the database refused an impossible value: {error}", remedy="run virtflow fsck")
    if isinstance(error, TimeoutError):
        return Unavailable("the database did not answer in time", remedy="try again in a moment")
    return Unavailable(f"the database does not answer: {error or type(error).__name__}", remedy="try again in a moment")


def is_certain(error: Exception) -> bool:
    """Is it sure that a COMMIT that ended like this did not happen?"""
    return (getattr(error, "sqlstate", None) or "").startswith(_CERTAINLY_ROLLED_BACK)


class PoolReader:
    """Single statements, each on a connection of the pool."""

    def __init__(self, pool: "asyncpg.Pool[Any]", statements: dict[str, str], wait_s: float) -> None:
        self._pool = pool
        self._statements = statements
        self._wait_s = wait_s

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        async with borrowed(self._pool, self._wait_s) as connection:
            return await ConnectionReader(connection, self._statements).rows(name, *arguments)


class ConnectionReader:
    def __init__(self, connection: Any, statements: dict[str, str]) -> None:
        self._connection = connection
        self._statements = statements

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        try:
            found: Sequence[Row] = await self._connection.fetch(self._statements[name], *arguments)
        except (*LOST, asyncpg.PostgresError) as error:
            raise failure(error) from error
        return found


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
            yield
        except (*LOST, asyncpg.PostgresError) as error:
            self.error = error
            self.close(str(error) or "the connection was lost")
            raise failure(error) from error


@contextlib.asynccontextmanager
async def borrowed(pool: "asyncpg.Pool[Any]", wait_s: float) -> AsyncIterator[Any]:
    """A connection of the pool. One that may still be in the middle of something is thrown away, not given back."""
    try:
        connection = await pool.acquire(timeout=wait_s)
    except TimeoutError as error:
        raise Unavailable("no connection to the database in time", remedy="try again in a moment") from error
    except (OSError, asyncpg.InterfaceError, asyncpg.PostgresError) as error:
        raise failure(error) from error
    try:
        yield connection
    except BaseException:
        if connection.is_in_transaction() or not _is_idle(connection):
            connection.terminate()
        raise
    finally:
        await pool.release(connection)
