"""Is this process well (health), and may it be sent work (ready)? Part by part, and since when."""

import asyncio
import dataclasses
from collections.abc import Callable, Collection, Mapping

import structlog

from virtflow.control.follow import Follower
from virtflow.control.inventories import Inventories
from virtflow.control.mirror import Mirror
from virtflow.control.remedies import remedy_for
from virtflow.control.schedule import Scheduler
from virtflow.election import Election
from virtflow.model.clock import Clock
from virtflow.model.errors import VirtflowError
from virtflow.model.health import HealthReport, Status, Unwell, worst
from virtflow.store.contract import Store

log = structlog.get_logger(__name__)

#: who asks for our health waits for few seconds only
DATABASE_S_MAX = 2.0
#: so often every part is looked at, so that it is known since when one is unwell
LOOK_S = 1.0
CAUSE_CHARACTERS_MAX = 400
_READY = ("ok", "following", "leading")
_WELL = (*_READY, "starting")

#: part -> "ok" (or what it does for its office), or what is wrong
States = Callable[[], Mapping[str, str]]


@dataclasses.dataclass(slots=True, kw_only=True)
class Health:
    store: Store
    scheduler: Scheduler
    inventories: Inventories
    follower: Follower
    mirror: Mirror
    clock: Clock
    #: what this process does
    roles: frozenset[str]
    #: the elections that it stands in
    elections: tuple[Election, ...]
    #: set when this process was told to stop: it still answers, but others should be asked
    leaving: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    #: loops and offices: without one of them this process does not do what it is for
    needed: States
    #: what work goes on without, and what a restart would not mend
    useful: States = dict
    #: as of the last look: part -> whether it is well
    well: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    unwell: tuple[Unwell, ...] = ()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """What is unwell is remembered with the moment when that was seen first."""
        report = await self.check()
        was_well = self.well.get("database", True)
        self.unwell = report.unwell
        ill = {one.part: one.cause for one in report.unwell}
        self.well = {part: part not in ill for part in report.parts}
        if was_well and "database" in ill:  # one line for each change of state, not for each look
            log.warning("database.lost", error=ill["database"])
        elif not was_well and "database" not in ill:
            log.info("database.back")

    async def check(self) -> HealthReport:
        """Failing when a part that is needed does not work and does not mend itself."""
        database, behind = await self._database()
        needed = {"scheduler": self.scheduler.state, "database": database, **self._mirror(), **self.needed()}
        return self._report(needed, useful=self._useful(), good=_WELL, behind=behind)

    async def ready(self) -> HealthReport:
        """Well when it accepts and places: the database answers, the fleet is loaded, every inventory was asked."""
        # who does not lead asks no inventory
        asked = "ok" if self.inventories.asked_all or not self.scheduler.is_leading else "not asked yet"
        database, behind = await self._database()
        parts = {"scheduler": self.scheduler.state, "database": database, **self._mirror(), "inventories": asked}
        if self.leaving.is_set():
            parts["process"] = "stopping"
        return self._report(parts, useful={}, good=_READY, behind=behind)

    def _report(
        self, needed: Mapping[str, str], *, useful: Mapping[str, str], good: Collection[str], behind: int | None
    ) -> HealthReport:
        failing = {part: state for part, state in needed.items() if state not in good}
        degraded = {part: state for part, state in useful.items() if state not in good and part not in failing}
        unwell = (
            *(self._unwell(part, Status.FAILING, state) for part, state in failing.items()),
            *(self._unwell(part, Status.DEGRADED, state) for part, state in degraded.items()),
        )
        return HealthReport(
            status=worst(unwell),
            parts={**useful, **needed, **degraded},
            unwell=unwell,
            roles=sorted(self.roles),
            offices={election.office: self._holding(election) for election in self.elections},
            behind=behind,
        )

    def _unwell(self, part: str, status: Status, state: str) -> Unwell:
        before = next((one for one in self.unwell if one.part == part), None)
        return Unwell(
            part=part,
            status=status,
            since_ms=self.clock.now_ms() if before is None else before.since_ms,
            cause=state.removeprefix("degraded: ").removeprefix("failing: ")[:CAUSE_CHARACTERS_MAX],
            remedy=remedy_for(part),
        )

    def _holding(self, election: Election) -> str:
        """Who was elected scheduler leads only when he has the fence and the fleet."""
        leads = self.scheduler.is_leading if election.office == "scheduler" else election.state == "leading"
        return "leading" if leads else "following"

    def _mirror(self) -> dict[str, str]:
        return {"mirror": self.follower.state} if self.store.origin else {}

    def _useful(self) -> dict[str, str]:
        """An inventory is asked by who leads; what he was told before is nobody's trouble afterwards."""
        asked = {f"inventory {one.location}": one.last_error or "ok" for one in self.inventories.report()}
        return {
            **self.useful(),
            **{f"election of {one.office}": one.state for one in self.elections},
            **(asked if self.scheduler.is_leading else {}),
        }

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
