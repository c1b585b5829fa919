"""Is this process well (health), and may it be sent work (ready)?"""

import asyncio
import dataclasses
from collections.abc import Callable, Collection, Mapping

import msgspec

from virtflow.control.follow import Follower
from virtflow.control.inventories import Inventories
from virtflow.control.mirror import Mirror
from virtflow.control.relay import Relay
from virtflow.control.schedule import Scheduler
from virtflow.election import Election
from virtflow.model.errors import VirtflowError
from virtflow.model.views import HealthReport
from virtflow.store.contract import Store

#: who asks for our health waits for few seconds only
DATABASE_S_MAX = 2.0
_READY = ("ok", "following")
_WELL = (*_READY, "starting")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    store: Store
    scheduler: Scheduler
    inventories: Inventories
    follower: Follower
    mirror: Mirror
    #: what this process does
    roles: frozenset[str]
    #: the elections that it stands in
    elections: tuple[Election, ...]
    relay: Relay
    #: set when this process was told to stop: it still answers, but others should be asked
    leaving: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    #: loops and offices: name -> "ok", or what is wrong
    loops: Callable[[], Mapping[str, str]]
    #: what is worth knowing and stops nobody, so that a restart would not help: part -> the note
    notes: Callable[[], Mapping[str, str]] = dict

    async def check(self) -> HealthReport:
        """Red when a part of this process does not work and does not mend itself."""
        database, behind = await self._database()
        parts = {
            "scheduler": self.scheduler.state,
            "database": database,
            **self._mirror(),
            **self.loops(),
        }
        report = self._report(parts, good=_WELL, behind=behind)
        return msgspec.structs.replace(report, parts={**parts, **self.relay.troubles, **self.notes()})

    async def ready(self) -> HealthReport:
        """Green when it accepts and places: the database answers, the fleet is loaded, every inventory was asked."""
        # who does not lead asks no inventory
        asked = "ok" if self.inventories.asked_all or not self.scheduler.is_leading else "not asked yet"
        database, behind = await self._database()
        parts = {"scheduler": self.scheduler.state, "database": database, **self._mirror(), "inventories": asked}
        if self.leaving.is_set():
            parts["process"] = "stopping"
        return self._report(parts, good=_READY, behind=behind)

    def _report(self, parts: dict[str, str], *, good: Collection[str], behind: int | None) -> HealthReport:
        return HealthReport(
            ok=all(state in good for state in parts.values()),
            parts=parts,
            roles=sorted(self.roles),
            offices={election.office: self._holding(election) for election in self.elections},
            behind=behind,
        )

    def _holding(self, election: Election) -> str:
        """Who was elected scheduler leads only when he has the fence and the fleet."""
        leads = self.scheduler.is_leading if election.office == "scheduler" else election.state == "leading"
        return "leading" if leads else "following"

    def _mirror(self) -> dict[str, str]:
        return {"mirror": self.follower.state} if self.store.origin else {}

    async def _database(self) -> tuple[str, int | None]:
        """Whether it answers, and how much of the log we have not heard of."""
        try:
            async with asyncio.timeout(DATABASE_S_MAX):
                return "ok", await self._behind()
        except TimeoutError:
            return f"the database did not answer within {DATABASE_S_MAX:g} s", None
        except VirtflowError as error:
            return error.detail, None

    async def _behind(self) -> int | None:
        if not self.store.origin:  # there are no others
            await self.store.ping()
            return None
        _, newest = await self.store.event_range()
        return max(0, newest - self.mirror.position)
