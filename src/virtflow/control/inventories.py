"""Where hosts come from: asks each inventory, keeps the last good answer, and marks what disappeared."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence

import msgspec
import structlog

from virtflow.control.hosts import Hosts
from virtflow.control.pools import Pools
from virtflow.inventory import Fetched, FoundHost, Inventory, UsageMode, foreign_use
from virtflow.model.clock import Clock
from virtflow.model.errors import Conflict, Unavailable, VersionMismatch, VirtflowError
from virtflow.model.event import EventType
from virtflow.model.host import Host, HostSpec
from virtflow.model.pool import PoolSpec
from virtflow.model.views import InventoryReport, SkippedRecord
from virtflow.store.contract import Store

log = structlog.get_logger(__name__)

_ACTOR = "inventory"
#: hosts registered in one transaction
REGISTER_AT_ONCE = 1_000


class _Watched:
    """One inventory, and what it last said."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.found: dict[str, FoundHost] = {}
        self.pools: dict[str, PoolSpec] = {}
        self.skipped: tuple[SkippedRecord, ...] = ()
        self.skipped_total = 0
        self.last_success_ms: int | None = None
        self.last_success_s: float | None = None
        self.last_error: str | None = None
        self.asked_once = False
        #: one question at a time: a slow old answer must not overtake a new one
        self.asking = asyncio.Lock()


class Inventories:
    def __init__(
        self,
        inventories: Iterable[Inventory],
        *,
        store: Store,
        hosts: Hosts,
        pools: Pools,
        clock: Clock,
        poll_s: float,
        usage: UsageMode,
    ) -> None:
        self._watched = [_Watched(inventory) for inventory in inventories]
        self._store = store
        self._hosts = hosts
        self._pools = pools
        self._clock = clock
        self._poll_s = poll_s
        self._usage = usage

    @property
    def asked_all(self) -> bool:
        """Each was asked at least once, with or without success: before that nobody can say that nothing fits."""
        return all(watched.asked_once for watched in self._watched)

    def report(self) -> Sequence[InventoryReport]:
        return [self._report(watched) for watched in self._watched]

    async def run(self) -> None:
        """Until cancelled, also when there is nobody to ask."""
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Event().wait())
            for watched in self._watched:
                group.create_task(self._follow(watched))

    async def _follow(self, watched: _Watched) -> None:
        """Asks at each knock and each tick; whatever goes wrong with one answer, the next is asked for."""
        knocked = asyncio.Event()
        knocks = asyncio.create_task(_knock_on(watched.inventory, knocked))
        try:
            while True:
                await self.refresh(watched)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._poll_s):
                        await knocked.wait()
                knocked.clear()
        finally:
            knocks.cancel()

    async def refresh_all(self) -> None:
        for watched in self._watched:
            await self.refresh(watched)

    async def refresh(self, watched: _Watched) -> None:
        async with watched.asking:
            await self._ask(watched)

    async def _ask(self, watched: _Watched) -> None:
        try:
            fetched = await watched.inventory.fetch()
            self._note_skipped(watched, fetched)
            if not fetched.hosts:
                raise Unavailable(f"the answer holds no usable host; {fetched.skipped_total} records were skipped")
            await self._take_over(watched, fetched)
        except VirtflowError as error:
            self._note_failure(watched, error.detail)
        except Exception as error:
            log.exception("inventory.broken", location=watched.inventory.location)
            self._note_failure(watched, f"{type(error).__name__}: {error}")
        else:
            if watched.last_error is not None:
                log.info("inventory.recovered", location=watched.inventory.location)
            watched.last_error = None
            watched.last_success_ms = self._clock.now_ms()
            watched.last_success_s = self._clock.monotonic_s()
        finally:
            watched.asked_once = True

    def _note_failure(self, watched: _Watched, what: str) -> None:
        if watched.last_error is None:  # one line for each change of state, not for each try
            log.warning("inventory.failed", location=watched.inventory.location, error=what)
        watched.last_error = what

    # ── taking an answer over ─────────────────────────────────────────────────────────────────────

    def _note_skipped(self, watched: _Watched, fetched: Fetched) -> None:
        if fetched.skipped and fetched.skipped != watched.skipped:
            first = fetched.skipped[0]
            log.warning(
                "inventory.skipped",
                location=watched.inventory.location,
                total=fetched.skipped_total,
                first=first.record,
                problem=first.problem,
            )
        watched.skipped, watched.skipped_total = fetched.skipped, fetched.skipped_total

    async def _take_over(self, watched: _Watched, fetched: Fetched) -> None:
        await self._take_pools(watched, fetched.pools)
        known = await self._known_hosts()
        new = [found for found in fetched.hosts if found.spec.name not in known]
        for start in range(0, len(new), REGISTER_AT_ONCE):
            await self._register(watched, new[start : start + REGISTER_AT_ONCE])
        for found in fetched.hosts:
            host = known.get(found.spec.name)
            if host is not None:
                await self._update(watched, host, found)
        await self._mark_missing(watched, known, {found.spec.name for found in fetched.hosts})
        watched.found = {found.spec.name: found for found in fetched.hosts}

    async def _known_hosts(self) -> dict[str, Host]:
        known: dict[str, Host] = {}
        async for hosts in self._store.all_hosts():
            known.update((host.name, host) for host in hosts)
        return known

    async def _take_pools(self, watched: _Watched, pools: Sequence[PoolSpec]) -> None:
        """Only when the source changed its mind: in between, an operator's word holds."""
        for spec in pools:
            if watched.pools.get(spec.name) != spec:
                await self._pools.put(spec, expected_version=None, actor=_ACTOR)
                watched.pools[spec.name] = spec

    async def _register(self, watched: _Watched, new: Sequence[FoundHost]) -> None:
        foreign = {found.spec.name: foreign_use(found.reported, {}, self._usage) for found in new}
        specs = [found.spec for found in new]
        try:
            await self._hosts.register(specs, source=watched.inventory.source, actor=_ACTOR, foreign=foreign)
        except Conflict:
            for spec in specs:  # somebody registered one of them meanwhile: the others must not wait for it
                with contextlib.suppress(Conflict):
                    await self._hosts.register([spec], source=watched.inventory.source, actor=_ACTOR, foreign=foreign)

    async def _update(self, watched: _Watched, host: Host, found: FoundHost) -> None:
        if host.source is not watched.inventory.source:
            return  # somebody else speaks for it
        foreign = foreign_use(found.reported, host.used, self._usage)
        returned = host.missing_since_ms is not None
        before = watched.found.get(host.name)
        spec = host.spec if before is not None and before.spec == found.spec else _merge(host.spec, found.spec)
        if spec == host.spec and foreign == host.foreign and not returned:
            return
        row = msgspec.structs.replace(host, spec=spec, foreign=foreign, missing_since_ms=None)
        event = EventType.HOST_RETURNED if returned else EventType.HOST_CHANGED
        with contextlib.suppress(VersionMismatch):  # an operator was faster: the next answer finds it
            await self._hosts.write(row, actor=_ACTOR, event=event)

    async def _mark_missing(self, watched: _Watched, known: dict[str, Host], listed: set[str]) -> None:
        """Never dropped: a host that is no longer listed takes no new instances until it comes back or is deleted."""
        for host in known.values():
            gone = host.source is watched.inventory.source and host.name not in listed
            if gone and host.missing_since_ms is None:
                row = msgspec.structs.replace(host, missing_since_ms=self._clock.now_ms())
                with contextlib.suppress(VersionMismatch):
                    await self._hosts.write(row, actor=_ACTOR, event=EventType.HOST_MISSING)

    def _report(self, watched: _Watched) -> InventoryReport:
        age_s = None if watched.last_success_s is None else self._clock.monotonic_s() - watched.last_success_s
        fresh = watched.last_error is None and age_s is not None
        return InventoryReport(
            source=watched.inventory.source.value,
            location=watched.inventory.location,
            state="fresh" if fresh else "never" if age_s is None else "stale",
            last_success_ms=watched.last_success_ms,
            age_s=None if age_s is None else round(age_s, 3),
            last_error=watched.last_error,
            hosts=len(watched.found),
            skipped=watched.skipped,
            skipped_total=watched.skipped_total,
        )


def _merge(known: HostSpec, found: HostSpec) -> HostSpec:
    """What a source does not say stays as an operator set it."""
    return msgspec.structs.replace(
        found,
        overcommit=found.overcommit or known.overcommit,
        reserved=found.reserved or known.reserved,
        labels=found.labels or known.labels,
        zone=found.zone or known.zone,
        rack=found.rack or known.rack,
        model=found.model or known.model,
        address=found.address or known.address,
    )


async def _knock_on(inventory: Inventory, knocked: asyncio.Event) -> None:
    async for _ in inventory.changes():
        knocked.set()
