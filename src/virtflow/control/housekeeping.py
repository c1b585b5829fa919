"""What is kept for a time only: answers to Idempotency-Keys, dead letters, and the oldest events."""

import asyncio

import structlog

from virtflow.model.clock import Clock
from virtflow.model.errors import VirtflowError
from virtflow.store.contract import Store

log = structlog.get_logger(__name__)

EVERY_S = 600.0


class Housekeeping:
    def __init__(
        self, *, store: Store, clock: Clock, idempotency_keep_s: int, dead_keep_s: int, events_keep: int
    ) -> None:
        self._store = store
        self._clock = clock
        self._idempotency_keep_s = idempotency_keep_s
        self._dead_keep_s = dead_keep_s
        self._events_keep = events_keep

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
        trimmed = await self._store.trim_events(keep=self._events_keep)
        if forgotten or dead or trimmed:
            log.info("housekeeping.swept", answers=forgotten, dead=dead, events=trimmed)
