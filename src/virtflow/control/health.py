"""Is this process well (health), and may it be sent work (ready)?"""

import dataclasses
from collections.abc import Callable, Mapping

from virtflow.control.inventories import Inventories
from virtflow.control.relay import Relay
from virtflow.control.schedule import Scheduler
from virtflow.model.errors import VirtflowError
from virtflow.model.views import HealthReport
from virtflow.store.contract import Store

_READY = ("ok", "following")
_WELL = (*_READY, "starting")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    store: Store
    scheduler: Scheduler
    inventories: Inventories
    #: loops that ended or keep failing: name -> what is wrong
    loops: dict[str, str]
    relay: Relay
    #: what is worth knowing and stops nobody, so that a restart would not help: part -> the note
    notes: Callable[[], Mapping[str, str]] = dict

    async def check(self) -> HealthReport:
        """Red when a part of this process does not work and does not mend itself."""
        parts = {
            "scheduler": self.scheduler.state,
            "database": await self._database(),
            **self.loops,
            **self.relay.troubles,
        }
        return HealthReport(ok=all(state in _WELL for state in parts.values()), parts={**parts, **self.notes()})

    async def ready(self) -> HealthReport:
        """Green when it accepts and places: the database answers, the fleet is loaded, every inventory was asked."""
        # who does not lead asks no inventory
        asked = "ok" if self.inventories.asked_all or not self.scheduler.is_leading else "not asked yet"
        parts = {"scheduler": self.scheduler.state, "database": await self._database(), "inventories": asked}
        return HealthReport(ok=all(state in _READY for state in parts.values()), parts=parts)

    async def _database(self) -> str:
        try:
            await self.store.ping()
        except VirtflowError as error:
            return error.detail
        return "ok"
