"""A ballot in memory that may be slow, lose questions and lose answers."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import TypeVar

from virtflow.election.ballot import Vote

_Answer = TypeVar("_Answer")
_NEVER_S = 1e9


@dataclasses.dataclass
class Way:
    """What happens to one question on its way there and back."""

    there_s: float = 0.0
    back_s: float = 0.0
    is_question_lost: bool = False
    is_answer_lost: bool = False


class Urn:
    """The record of one office, and who of its voters is seen as dead."""

    def __init__(self) -> None:
        self.vote: Vote | None = None
        self.dead: set[str] = set()
        self._marks = 0

    def ballot(self, me: str, *, look_s: float = 0.2, call_s: float = 1.0) -> "MemoryBallot":
        return MemoryBallot(self, me, look_s=look_s, call_s=call_s)

    def seen(self) -> Vote | None:
        return self.vote and self.vote._replace(is_attended=self.vote.holder not in self.dead)

    def change(self, seen: Vote | None, *, holder: str, term: int) -> Vote | None:
        """Compare and set."""
        if (self.vote and self.vote.mark) != (seen and seen.mark):
            return None
        self._marks += 1
        self.vote = Vote(holder, term, self._marks)
        return self.vote


class MemoryBallot:
    """`way` is asked before each question what will happen to it."""

    def __init__(self, urn: Urn, me: str, *, look_s: float, call_s: float) -> None:
        self.look_s = look_s
        self.call_s = call_s
        self.way: Callable[[], Way] = Way
        self._urn = urn
        self._me = me
        self._gone = asyncio.Event()
        self._under_way: set[asyncio.Task[object]] = set()

    async def check(self) -> None:
        """Nothing can be wrong with it."""

    async def look(self) -> Vote | None:
        return await self._asked(self._urn.seen)

    async def take(self, seen: Vote | None) -> Vote | None:
        return await self._asked(lambda: self._urn.change(seen, holder=self._me, term=seen.term + 1 if seen else 1))

    async def renew(self, held: Vote) -> Vote | None:
        return await self._asked(lambda: self._change_ours(held, holder=self._me))

    async def leave(self, held: Vote) -> None:
        await self._asked(lambda: self._change_ours(held, holder=""))

    def gone(self) -> asyncio.Event:
        return self._gone

    async def close(self) -> None:
        """What is still under way arrives nowhere."""
        for sent in self._under_way:
            sent.cancel()

    def _change_ours(self, held: Vote, *, holder: str) -> Vote | None:
        """Also when an earlier answer was lost: who holds it in which term is what counts."""
        now = self._urn.vote
        if now is None or (now.holder, now.term) != (self._me, held.term):
            return None
        return self._urn.change(now, holder=holder, term=held.term)

    async def _asked(self, question: Callable[[], _Answer]) -> _Answer:
        """A question that was sent arrives, also when nobody waits for its answer any more."""
        way = self.way()
        sent = asyncio.create_task(_answered(question, way))
        self._under_way.add(sent)
        sent.add_done_callback(self._under_way.discard)
        return await asyncio.shield(sent)


async def _answered(question: Callable[[], _Answer], way: Way) -> _Answer:
    await asyncio.sleep(_NEVER_S if way.is_question_lost else way.there_s)
    answer = question()
    await asyncio.sleep(_NEVER_S if way.is_answer_lost else way.back_s)
    return answer
