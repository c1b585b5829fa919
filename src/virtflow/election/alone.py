"""The embedded database has one process: it is elected at once and for ever."""

import asyncio

from virtflow.election.contract import Term


class _OnlyTerm:
    def __init__(self, office: str, number: int) -> None:
        self.office = office
        self.number = number
        self._over = asyncio.Event()

    def is_valid(self) -> bool:
        return not self._over.is_set()

    async def ended(self) -> None:
        await self._over.wait()

    async def resign(self) -> None:
        self._over.set()


class Alone:
    def __init__(self, office: str) -> None:
        self.office = office
        self.term = 0
        self._term: _OnlyTerm | None = None

    @property
    def state(self) -> str:
        return "leading" if self._term is not None and self._term.is_valid() else "following"

    async def check(self) -> None:
        """Nothing can be wrong with it."""

    async def campaign(self) -> Term:
        self.term += 1
        self._term = _OnlyTerm(self.office, self.term)
        return self._term

    async def close(self) -> None:
        if self._term is not None:
            await self._term.resign()
