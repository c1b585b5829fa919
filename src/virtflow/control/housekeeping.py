"""What is kept for a time only: answers to Idempotency-Keys, dead letters, and the oldest events."""

import asyncio

import structlog

from virtflow.control.outlets import Outlets
from virtflow.model.clock import Clock
from virtflow.model.errors import VirtflowError
from virtflow.store.contract import Store

log = structlog.get_logger(__name__)

EVERY_S = 600.0


class Housekeeping:
    """Events are kept as `events_keep` says, and longer for outlets that lag, up to `events_keep_max` in all."""

    def __init__(
        self,
        *,
        store: Store,
        outlets: Outlets,
        clock: Clock,
        idempotency_keep_s: int,
        dead_keep_s: int,
        events_keep: int,
        events_keep_max: int,
    ) -> None:
        self._store = store
        self._outlets = outlets
        self._clock = clock
        self._idempotency_keep_s = idempotency_keep_s
        self._dead_keep_s = dead_keep_s
        self._events_keep = events_keep
        self._events_keep_max = max(events_keep, events_keep_max)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.sweep()
            except VirtflowError as error:
                log.warning("housekeeping.failed", error=error.detail)

    async def sweep(self) -> None:
        now_ms = self._clock.now_ms()
        forgotten = await self._store.forget_answers(before_ms=now_ms - self._idempotency_keep_s * 1000)
        dead = await self._store.forget_dead(before_ms=now_ms - self._dead_keep_s * 1000)
        trimmed = await self._forget_events()
        if forgotten or dead or trimmed:
            log.info("housekeeping.swept", answers=forgotten, dead=dead, events=trimmed)

    async def _forget_events(self) -> int:
        _, newest = await self._store.event_range()
        needed_from = await self._outlets.needed_from()
        needed = 0 if needed_from is None else newest - needed_from + 1
        keep = min(self._events_keep_max, max(self._events_keep, needed))
        if needed > keep:
            # before they are forgotten, so that nobody loses anything without being told
            await self._outlets.leave_behind(newest - keep + 1)
        return await self._store.trim_events(keep=keep, upto=newest)
