"""What time it is: by this machine, or by the database that several machines share."""

import asyncio
import contextlib
import time

import structlog

from virtflow.model.clock import Clock
from virtflow.model.errors import VirtflowError
from virtflow.store.contract import Store

log = structlog.get_logger(__name__)

#: the database is asked this often
ASK_S = 5.0
#: an answer that took longer says too little about when it was given
ANSWER_S_MAX = 1.0
#: what the two may differ by is not worth a jump
APART_MS_MAX = 20
#: a difference is told when it is as great as this
STRIKING_MS = 2_000


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


class SharedClock:
    """The wall clock of the database, carried on by our own monotonic clock.

    Deadlines, next tries and ages are compared with times that other processes wrote. With this clock they all mean the
    same, and nobody notices when the wall clock of one machine is wrong or jumps.
    """

    def __init__(self, own: Clock, store: Store) -> None:
        self._own = own
        self._store = store
        #: from the monotonic clock to the database's; None: not known yet, and our own wall clock must do
        self._offset_ms: float | None = None

    def now_ms(self) -> int:
        if self._offset_ms is None:
            return self._own.now_ms()
        return round(self._own.monotonic_s() * 1000 + self._offset_ms)

    def monotonic_s(self) -> float:
        return self._own.monotonic_s()

    async def run(self) -> None:
        """Until cancelled. While the database is away, our own monotonic clock goes on alone."""
        while True:
            await asyncio.sleep(ASK_S)
            with contextlib.suppress(VirtflowError):
                await self.ask()

    async def ask(self) -> None:
        """What time it is there: the answer was given at some moment between question and receipt."""
        asked_s = self._own.monotonic_s()
        told_ms = await self._store.now_ms()
        heard_s = self._own.monotonic_s()
        if self._offset_ms is not None and heard_s - asked_s > ANSWER_S_MAX:
            return
        offset_ms = told_ms - (asked_s + heard_s) * 500
        doubt_ms = (heard_s - asked_s) * 500 + APART_MS_MAX
        if self._offset_ms is None:
            self._tell(self._own.now_ms() - offset_ms - heard_s * 1000, "our own wall clock")
            self._offset_ms = offset_ms
        elif abs(self._offset_ms - offset_ms) > doubt_ms:
            self._tell(self._offset_ms - offset_ms, "what it said before")
            self._offset_ms = offset_ms

    def _tell(self, difference_ms: float, other: str) -> None:
        if abs(difference_ms) >= STRIKING_MS:
            log.warning(
                "clock.differs", database="is right", differs_from=other, seconds=round(-difference_ms / 1000, 1)
            )
