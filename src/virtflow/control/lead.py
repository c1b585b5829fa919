"""Living with an office: stand for it, do its work while it lasts, give it back, and begin again."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from virtflow.election import Election, Term
from virtflow.model.errors import VirtflowError

log = structlog.get_logger(__name__)

#: after work that failed, others get a chance to do it better
REST_S, REST_S_MAX = 0.1, 5.0
RESIGN_S_MAX = 2.0
#: work that has gone on for so long is well again
WELL_S = 2.0


class Office:
    """`work` is done during each term, and returns when that ended or the work cannot go on."""

    def __init__(self, election: Election, work: Callable[[Term], Awaitable[None]]) -> None:
        self._election = election
        self._work = work
        self._failures = 0
        #: "ok", or what is wrong: for health
        self.state = "ok"

    @property
    def name(self) -> str:
        return self._election.office

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            term = await self._election.campaign()
            well = asyncio.get_running_loop().call_later(WELL_S, self._is_well)
            try:
                await self._work(term)
                self._is_well()
            except Exception as error:
                self._failed(error)
            finally:
                well.cancel()
                await _resign(term)
            await asyncio.sleep(min(REST_S_MAX, REST_S * 2**self._failures) if self._failures else 0)

    def _is_well(self) -> None:
        if self.state != "ok":
            log.info("office.recovered", office=self.name)
        self._failures, self.state = 0, "ok"

    def _failed(self, error: Exception) -> None:
        self._failures = min(self._failures + 1, 10)
        words = error.detail if isinstance(error, VirtflowError) else f"{type(error).__name__}: {error}"
        if self.state == "ok":  # one line for each change of state, not for each try
            log.warning("office.failed", office=self.name, error=words, exc_info=not isinstance(error, VirtflowError))
        self.state = f"failing: {words}"


async def _resign(term: Term) -> None:
    """Also when we are being cancelled: the next one should not have to wait for the lease."""
    resigning = asyncio.ensure_future(term.resign())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(RESIGN_S_MAX):
            await asyncio.shield(resigning)
