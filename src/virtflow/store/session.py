"""What the nouns need of a database: named statements, for one row or for many."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

#: A row of a result, or the arguments of a statement in the order of their placeholders.
Row = Sequence[Any]

_Result = TypeVar("_Result")

#: Rows that one step of a scan brings: more would hold up everybody else while they are read.
CHUNK_ROWS = 1_000


class Reader(Protocol):
    """A place where statements are run."""

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        """Runs a statement; a list among the arguments is an array."""
        ...


class Session(Reader, Protocol):
    """One transaction that writes."""

    async def each(self, name: str, rows: Sequence[Row]) -> list[Row]:
        """Runs a statement for each of the rows; returns those for which it changed nothing.

        The last column tells the rows apart.
        """
        ...


#: Opens a reader that sees one state of the database, whatever is written meanwhile.
Snapshots = Callable[[], AbstractAsyncContextManager[Reader]]


async def to_the_end(work: "asyncio.Future[_Result]") -> _Result:
    """Cancelling the caller must not leave a connection in use: first the work ends, then the caller."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        work.exception()  # looked at, so that nobody warns about it
        raise cancelled
    return work.result()
