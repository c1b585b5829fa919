"""Stands for an office until elected, and keeps it by beats while it can: the same whoever counts the votes."""

import asyncio
import contextlib

import structlog

from virtflow.election.ballot import Ballot, Vote
from virtflow.election.contract import Term
from virtflow.election.judge import Judge, kept_until_s, next_beat_s
from virtflow.model.clock import Clock
from virtflow.model.errors import Busy, VirtflowError

log = structlog.get_logger(__name__)

#: a beat that failed is tried again after this part of the lease
AGAIN = 0.05
LEAVE_S_MAX = 1.0
#: nobody is obeyed who says to come back later than this
PAUSE_S_MAX = 10.0
_WELL = ("following", "leading")


class Candidate:
    """`me`: an id that no other process has, nor an earlier one of ours."""

    def __init__(self, ballot: Ballot, *, office: str, me: str, lease_s: float, clock: Clock) -> None:
        self.office = office
        self.state = "following"
        self.term = 0
        self._ballot = ballot
        self._me = me
        self._lease_s = lease_s
        self._clock = clock
        self._kept: _KeptTerm | None = None

    async def check(self) -> None:
        await self._ballot.check()

    async def campaign(self) -> Term:
        judge = Judge(self._me, self._lease_s)
        while True:
            pause_s = self._ballot.look_s
            try:
                term = await self._stand(judge)
                self._say("following" if term is None else "leading")
            except (VirtflowError, TimeoutError) as error:
                self._say(_words(error))
                pause_s = max(pause_s, _pause_s(error))
            else:
                if term is not None:
                    return term
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        if self._kept is not None:
            await self._kept.resign()
        await self._ballot.close()

    async def _stand(self, judge: Judge) -> "_KeptTerm | None":
        async with asyncio.timeout(self._ballot.call_s):
            seen = await self._ballot.look()
        if not judge.is_free(seen, self._clock.monotonic_s()):
            return None
        asked_s = self._clock.monotonic_s()
        async with asyncio.timeout(self._ballot.call_s):
            held = await self._ballot.take(seen)
        if held is None:  # somebody was faster
            return None
        self.term = held.term
        self._kept = _KeptTerm(self, self._ballot, held, asked_s, lease_s=self._lease_s, clock=self._clock)
        log.info("office.taken", office=self.office, term=held.term, after=seen.holder if seen else "")
        return self._kept

    def over(self, why: str) -> None:
        """A term of ours has ended."""
        self._say("following")
        log.info("office.over", office=self.office, why=why)

    def _say(self, state: str) -> None:
        """One line for each change of state, not for each try."""
        was_well, is_well = self.state in _WELL, state in _WELL
        if was_well and not is_well:
            log.warning("election.failed", office=self.office, error=state)
        elif is_well and not was_well:
            log.info("election.works", office=self.office)
        self.state = state


class _KeptTerm:
    """Beats until it is told to stop, or until the time is over that the last beat gave."""

    def __init__(
        self, candidate: Candidate, ballot: Ballot, held: Vote, asked_s: float, *, lease_s: float, clock: Clock
    ) -> None:
        self.office = candidate.office
        self.number = held.term
        self._candidate = candidate
        self._ballot = ballot
        self._held = held
        self._lease_s = lease_s
        self._clock = clock
        self._asked_s = asked_s
        self._gone = ballot.gone()
        self._over = asyncio.Event()
        self._beating = asyncio.create_task(self._beat())

    def is_valid(self) -> bool:
        return not self._over.is_set() and not self._gone.is_set() and self._left_s() > 0

    async def ended(self) -> None:
        await self._over.wait()

    async def resign(self) -> None:
        if self._over.is_set():
            return
        self._end("resigned")
        self._beating.cancel()
        await asyncio.wait([self._beating])  # awaited by itself, it would swallow our own cancellation
        with contextlib.suppress(VirtflowError, TimeoutError):  # then the others find out by themselves
            async with asyncio.timeout(LEAVE_S_MAX):
                await self._ballot.leave(self._held)

    async def _beat(self) -> None:
        why = "it failed"
        try:
            why = await self._beat_while_ours()
        finally:
            self._end(why)

    async def _beat_while_ours(self) -> str:
        """Why it is over."""
        at_s = next_beat_s(self._asked_s, self._lease_s)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, at_s - self._clock.monotonic_s())):
                    await self._gone.wait()
            if self._gone.is_set():
                return "the connection that showed others that we live is gone"
            asked_s, left_s = self._clock.monotonic_s(), self._left_s()
            if left_s <= 0:
                return "no beat came through in time"
            try:
                async with asyncio.timeout(min(left_s, self._ballot.call_s)):
                    held = await self._ballot.renew(self._held)
            except (VirtflowError, TimeoutError) as error:
                log.debug("beat.failed", office=self.office, error=_words(error))
                at_s = self._clock.monotonic_s() + max(AGAIN * self._lease_s, _pause_s(error))
                at_s = min(at_s, kept_until_s(self._asked_s, self._lease_s))
                continue
            if held is None:
                return "somebody else was elected"
            self._held, self._asked_s = held, asked_s
            at_s = next_beat_s(asked_s, self._lease_s)

    def _left_s(self) -> float:
        return kept_until_s(self._asked_s, self._lease_s) - self._clock.monotonic_s()

    def _end(self, why: str) -> None:
        if not self._over.is_set():
            self._over.set()
            self._candidate.over(why)


def _pause_s(error: Exception) -> float:
    return min(error.retry_after_s, PAUSE_S_MAX) if isinstance(error, Busy) else 0.0


def _words(error: Exception) -> str:
    return error.detail if isinstance(error, VirtflowError) else "whoever counts the votes does not answer in time"
