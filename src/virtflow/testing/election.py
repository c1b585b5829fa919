"""Elections inside one test: an assembly that gives its seats to whoever stands, and takes them away when told."""

import asyncio
import collections

from virtflow.election import Term


class _Seat:
    """One term, from the moment it was given."""

    def __init__(self, assembly: "Assembly", number: int) -> None:
        self._assembly = assembly
        self.office = assembly.office
        self.number = number
        self._over = asyncio.Event()

    def is_valid(self) -> bool:
        return not self._over.is_set()

    async def ended(self) -> None:
        await self._over.wait()

    async def resign(self) -> None:
        self._assembly.end(self)

    def end(self) -> None:
        self._over.set()


class _Candidate:
    def __init__(self, assembly: "Assembly") -> None:
        self._assembly = assembly
        self.office = assembly.office
        self.state = "following"
        self.term = 0
        self._term: Term | None = None

    async def check(self) -> None:
        """Assemblies are always well."""

    async def campaign(self) -> Term:
        self.state = "following"
        self._term = await self._assembly.stand()
        self.term = self._term.number
        self.state = "leading"
        return self._term

    async def close(self) -> None:
        if self._term is not None:
            await self._term.resign()


class Assembly:
    """Terms go to candidates in the order in which they stood. With two seats there are two leaders at once."""

    def __init__(self, office: str = "scheduler", *, seats: int = 1) -> None:
        self.office = office
        self._seats = seats
        self._given: list[_Seat] = []
        self._candidates: collections.deque[asyncio.Future[Term]] = collections.deque()
        self._terms = 0

    def candidate(self) -> _Candidate:
        """The election as one process sees it."""
        return _Candidate(self)

    async def stand(self) -> Term:
        elected: asyncio.Future[Term] = asyncio.get_running_loop().create_future()
        self._candidates.append(elected)
        self._elect()
        return await elected

    def depose(self) -> None:
        """Every term ends; who stands next is elected."""
        for seat in list(self._given):
            self.end(seat)

    def end(self, seat: _Seat) -> None:
        seat.end()
        if seat in self._given:
            self._given.remove(seat)
            self._elect()

    def _elect(self) -> None:
        while self._candidates and len(self._given) < self._seats:
            elected = self._candidates.popleft()
            if elected.done():  # gave up
                continue
            self._terms += 1
            seat = _Seat(self, self._terms)
            self._given.append(seat)
            elected.set_result(seat)
