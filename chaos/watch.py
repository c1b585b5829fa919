"""Sees placements become true from outside: the database tells that its log grew, the new rows say who did it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import asyncpg

_CHANNEL = "virtflow"
_AGAIN_S = 0.02
_POLL_S = 0.25
_CONNECT_S_MAX = 2.0
#: how a connection to a server that comes and goes can end
_AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_ROWS = """
    SELECT last_seq, origin, position('"task.completed"'::bytea IN body) > 0 AS places
    FROM event WHERE last_seq > $1 ORDER BY last_seq
"""


class Commit(NamedTuple):
    """Events that were committed at once."""

    seen_s: float
    seq: int
    #: the process that wrote them
    origin: str
    #: something was placed
    places: bool

    @property
    def pid(self) -> int:
        """Of its writer: the middle of its name."""
        return int(self.origin.rsplit("-", 2)[1])


class Watch:
    """The last commits, by whom."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._news = asyncio.Event()
        self._grew = asyncio.Condition()
        self._seq = 0
        self.placements = 0
        self.last_placement: Commit | None = None

    async def run(self) -> None:
        """Until cancelled. The database may come and go."""
        while True:
            with contextlib.suppress(*_AWAY):
                await self._follow()
            await asyncio.sleep(_AGAIN_S)

    async def next_placement(self, *, after_s: float, not_by: int | None = None, within_s: float) -> Commit:
        """The first that is seen after that time, and was written by another than the process `not_by`."""

        def found() -> bool:
            last = self.last_placement
            return last is not None and last.seen_s > after_s and last.pid != not_by

        try:
            async with asyncio.timeout(within_s), self._grew:
                await self._grew.wait_for(found)
        except TimeoutError:
            raise TimeoutError(f"nothing was placed within {within_s:g} s") from None
        assert self.last_placement is not None
        return self.last_placement

    async def _follow(self) -> None:
        connection: Any = await asyncpg.connect(self._url, timeout=_CONNECT_S_MAX)
        try:
            await connection.add_listener(_CHANNEL, lambda *_: self._news.set())
            while True:
                for row in await connection.fetch(_ROWS, self._seq, timeout=_CONNECT_S_MAX):
                    await self._take(Commit(time.monotonic(), row["last_seq"], row["origin"] or "", row["places"]))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S):
                        await self._news.wait()
                self._news.clear()
        finally:
            connection.terminate()  # never in order: a statement may be on its way to a server that was killed

    async def _take(self, commit: Commit) -> None:
        self._seq = commit.seq
        if not commit.places:
            return
        async with self._grew:
            self.placements += 1
            self.last_placement = commit
            self._grew.notify_all()


@contextlib.asynccontextmanager
async def watching(url: str) -> AsyncIterator[Watch]:
    made = Watch(url)
    running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
