"""Which processes share the database, as they say themselves (presence), and which offices each of them holds."""

from collections.abc import Callable, Sequence

import msgspec

from virtflow.election import Election
from virtflow.model.clock import Clock
from virtflow.model.health import Unwell
from virtflow.model.lease import Lease
from virtflow.model.process import Process, ProcessView
from virtflow.store.contract import Store

#: who was not heard of for so long, three beats, is shown as silent
SILENT_S = 15.0


class Processes:
    """`me`: this process, for where there is no other; `unwell`: what is wrong with it."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        me: Process,
        elections: Sequence[Election],
        unwell: Callable[[], tuple[Unwell, ...]] = tuple,
    ) -> None:
        self._store = store
        self._clock = clock
        self._me = me
        self._elections = elections
        self._unwell = unwell

    def listens_at(self, address: str) -> None:
        self._me = msgspec.structs.replace(self._me, address=address)

    async def list(self) -> list[ProcessView]:
        """The oldest first. An office is whose name stands in its lease."""
        if not self._store.origin:
            return [self._alone()]
        leases = await self._store.leases()
        return [
            ProcessView(
                process=process,
                leases=tuple(lease for lease in leases if lease.holder == process.id),
                is_silent=process.silent_ms > SILENT_S * 1000,
            )
            for process in await self._store.processes()
        ]

    def _alone(self) -> ProcessView:
        """Nobody else is there to hear it, so it is not written."""
        process = msgspec.structs.replace(self._me, seen_ms=self._clock.now_ms(), unwell=self._unwell())
        held = tuple(
            Lease(
                office=one.office,
                holder=process.id,
                term=one.term,
                beat=0,
                is_attended=True,
                since_ms=process.started_ms,
            )
            for one in self._elections
            if one.state == "leading"
        )
        return ProcessView(process=process, leases=held)
