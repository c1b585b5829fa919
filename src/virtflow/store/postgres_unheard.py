"""Commits whose answer was lost, and which may still be on their way."""

import asyncio
from typing import Any

from virtflow.store.postgres_session import ANY_FAILURE, dropped_when_interrupted, failure

_LOOK_AGAIN_S = 0.02
#: our own ones: whoever has the number now is ended and comes back, should the server have given it away already
_END = (
    "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid = ANY($1::int[]) AND usename = current_user AND pid <> pg_backend_pid()"
)


class Unheard:
    """The word COMMIT may linger in the network, or be carried out slowly, after the connection broke for us.

    Whoever looked then for what became of it would find nothing, believe that, and it would come true behind his back.
    So before anything else is asked of the database those backends are ended; when they are gone, all is decided.
    """

    def __init__(self, *, wait_s: float) -> None:
        self._wait_s = wait_s
        self._pids: set[int] = set()
        self._settling = asyncio.Lock()

    def add(self, pid: int) -> None:
        self._pids.add(pid)

    async def settle(self, pool: Any) -> None:
        """Unavailable while they cannot be ended: then nobody may look."""
        if not self._pids:
            return
        try:
            async with asyncio.timeout(self._wait_s), self._settling:
                while self._pids:
                    asked = set(self._pids)
                    self._pids -= asked - await _end(pool, asked)
                    if self._pids:
                        await asyncio.sleep(_LOOK_AGAIN_S)
        except ANY_FAILURE as error:
            raise failure(error) from error


async def _end(pool: Any, pids: set[int]) -> set[int]:
    """Those that are still there."""
    async with pool.acquire() as connection:
        with dropped_when_interrupted(connection):
            return {row[0] for row in await connection.fetch(_END, sorted(pids))}
