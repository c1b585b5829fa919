"""Forgetting what is old: in small transactions, so that nobody waits long."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from virtflow.store.records import Writes
from virtflow.store.session import Reader

ANSWERS_FORGOTTEN_AT_ONCE = 5_000
DEAD_FORGOTTEN_AT_ONCE = 1_000
#: Rows of events, each with up to EVENTS_PER_CHUNK_MAX of them.
EVENT_ROWS_FORGOTTEN_AT_ONCE = 32


class _Writable(Protocol):
    _near: Reader

    def transaction(self) -> AbstractAsyncContextManager[Writes]: ...


class Housekeeping:
    async def forget_answers(self: _Writable, *, before_ms: int) -> int:
        forgotten = 0
        while True:
            async with self.transaction() as tx:
                step = await tx.forget_some_answers(before_ms, ANSWERS_FORGOTTEN_AT_ONCE)
            forgotten += step
            if step < ANSWERS_FORGOTTEN_AT_ONCE:
                return forgotten

    async def forget_dead(self: _Writable, *, before_ms: int) -> int:
        forgotten = 0
        while True:
            async with self.transaction() as tx:
                step = await tx.forget_some_dead(before_ms, DEAD_FORGOTTEN_AT_ONCE)
            forgotten += step
            if step < DEAD_FORGOTTEN_AT_ONCE:
                return forgotten

    async def trim_events(self: _Writable, *, keep: int, upto: int | None = None) -> int:
        [(oldest, newest)] = await self._near.rows("event_range")
        keep_from = int(newest if upto is None else upto) - keep + 1
        while True:
            async with self.transaction() as tx:
                if await tx.forget_some_events(keep_from, EVENT_ROWS_FORGOTTEN_AT_ONCE) < EVENT_ROWS_FORGOTTEN_AT_ONCE:
                    return max(0, keep_from - int(oldest))
