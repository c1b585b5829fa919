"""An election by a row with a beat, on the simulated server: see docs/cluster.md, "Leading"."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from virtflow.election import Term
from virtflow.testing.simulation.database import DatabaseServer
from virtflow.testing.simulation.network import Broken, Reply
from virtflow.testing.simulation.place import Place
from virtflow.testing.simulation.trace import Trace
from virtflow.testing.simulation.weather import Weather

STOP_SHARE = 0.8
LOOK_S = 0.1
#: a look that takes longer is none
ASK_S_MAX = 1.0


class Offices:
    """The rows: office -> (holder, beat, number of the term)."""

    def __init__(self, server: DatabaseServer) -> None:
        self.server = server
        self._rows: dict[str, tuple[str, int, int]] = {}

    def look(self, office: str) -> tuple[str, int, int, bool]:
        """And whether its holder is connected, as far as the server knows."""
        holder, beat, number = self._rows.get(office, ("", 0, 0))
        return holder, beat, number, self.server.is_connected(holder)

    def take(self, office: str, *, seen: tuple[str, int, int], holder: str) -> int:
        """The number of the new term; 0 when somebody was faster."""
        if self._rows.get(office, ("", 0, 0)) != seen:
            return 0
        self._rows[office] = (holder, seen[1] + 1, seen[2] + 1)
        return seen[2] + 1

    def renew(self, office: str, *, holder: str, number: int) -> bool:
        held, beat, held_number = self._rows.get(office, ("", 0, 0))
        if (held, held_number) != (holder, number):
            return False
        self._rows[office] = (held, beat + 1, number)
        return True

    def resign(self, office: str, *, holder: str, number: int) -> None:
        held, beat, held_number = self._rows.get(office, ("", 0, 0))
        if (held, held_number) == (holder, number):
            self._rows[office] = ("", beat + 1, number)


class SimulatedElection:
    def __init__(
        self, office: str, *, offices: Offices, place: Place, weather: Weather, trace: Trace, lease_s: float
    ) -> None:
        self.office = office
        self.state = "following"
        self.lease_s = lease_s
        self.name = place.name
        self._offices = offices
        self._place = place
        self._weather = weather
        self._trace = trace

    async def campaign(self) -> Term:
        self.state = "following"
        seen, since_s, looks_gone = None, 0.0, 0
        while True:
            asked_s = _now()
            try:
                *row, is_there = await self.ask("look", lambda: self._offices.look(self.office))
            except (Broken, TimeoutError):
                await asyncio.sleep(LOOK_S)
                continue
            if row != seen:
                seen, since_s, looks_gone = row, _now(), 0
            looks_gone = 0 if is_there else looks_gone + 1
            if not row[0] or looks_gone > 2 or asked_s - since_s > self.lease_s:
                if row[0]:
                    self._trace.sight("office taken by a hint" if looks_gone > 2 else "office taken after the lease")
                number = await self._take(tuple(row))
                if number:
                    term = _Term(self, number, asked_s)
                    self.state = "leading"
                    return term
            await asyncio.sleep(LOOK_S)

    async def _take(self, row: tuple[str, int, int]) -> int:
        try:
            return int(await self.ask("take", lambda: self._offices.take(self.office, seen=row, holder=self.name)))
        except (Broken, TimeoutError):
            return 0

    async def ask(self, what: str, do: Callable[[], Any]) -> Any:
        server = self._offices.server
        if not server.is_up:
            raise Broken
        wire = server.connect(self._place)
        self._trace.say(self.name, f"{self.office}: {what}")

        def at_server(reply: Reply) -> None:
            reply.give(do())

        try:
            async with asyncio.timeout(min(ASK_S_MAX, self.lease_s / 2)):
                return await wire.ask(
                    at_server,
                    loses_call=self._weather.comes("database call lost on its way"),
                    loses_reply=self._weather.comes("database reply lost on its way"),
                )
        finally:
            wire.drop()

    def renew(self, number: int) -> bool:
        return self._offices.renew(self.office, holder=self.name, number=number)

    def give_back(self, number: int) -> None:
        self._offices.resign(self.office, holder=self.name, number=number)

    async def close(self) -> None:
        self.state = "following"


class _Term:
    def __init__(self, election: SimulatedElection, number: int, asked_s: float) -> None:
        self.office = election.office
        self.number = number
        self._election = election
        self._until_s = asked_s + STOP_SHARE * election.lease_s
        self._over = asyncio.Event()
        self._renewing = asyncio.get_running_loop().create_task(self._renew())

    def is_valid(self) -> bool:
        return not self._over.is_set() and _now() < self._until_s

    async def ended(self) -> None:
        while self.is_valid():
            try:
                async with asyncio.timeout(max(0.0, self._until_s - _now()) + 0.001):
                    await self._over.wait()
            except TimeoutError:
                pass

    async def _renew(self) -> None:
        while self.is_valid():
            await asyncio.sleep(self._election.lease_s / 3)
            asked_s = _now()
            try:
                if not await self._election.ask("renew", lambda: self._election.renew(self.number)):
                    self._over.set()
            except (Broken, TimeoutError):
                continue
            if self.is_valid():
                self._until_s = asked_s + STOP_SHARE * self._election.lease_s

    async def resign(self) -> None:
        self._over.set()
        self._renewing.cancel()
        with contextlib.suppress(Broken, TimeoutError):
            await self._election.ask("resign", lambda: self._election.give_back(self.number))


def _now() -> float:
    return asyncio.get_running_loop().time()
