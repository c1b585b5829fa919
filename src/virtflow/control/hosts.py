"""Registering, changing and cordoning hosts: the row first, then the mirror, then a knock."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from virtflow.control.doubt import Doubt, transaction
from virtflow.control.mirror import Mirror
from virtflow.control.orders import Receipt
from virtflow.model.clock import Clock
from virtflow.model.errors import Conflict, NotFound, VersionMismatch
from virtflow.model.event import Event, EventType
from virtflow.model.host import Host, HostSpec, Source
from virtflow.model.pool import Pool, PoolSpec
from virtflow.model.resources import VMS, allocatable, with_ratio
from virtflow.store.contract import HostFilter, Store, Transaction

#: a host that says nothing about its VM quota
VMS_DEFAULT = 1_000
#: a race with another writer is lost at most so often before it is reported
CHANGE_TRIES_MAX = 5


#: inside the class `list` is a verb
_HostList = list[Host]


class Hosts:
    def __init__(self, *, store: Store, mirror: Mirror, clock: Clock, knock: Callable[[], None], doubt: Doubt) -> None:
        self._store = store
        self._mirror = mirror
        self._clock = clock
        self._knock = knock
        self._doubt = doubt

    def _marked(self, host: Host) -> Host:
        return self._mirror.self_hosts.marked(host)

    async def get(self, name: str) -> Host:
        host = await self._store.host(name)
        if host is None:
            raise NotFound(f"no host {name}", code="host_not_found", remedy="virtflow get hosts shows them all")
        return self._marked(host)

    async def list(self, where: HostFilter, *, after: str, limit: int) -> Sequence[Host]:
        return [self._marked(host) for host in await self._store.hosts(where, after=after, limit=limit)]

    async def register(
        self,
        specs: Sequence[HostSpec],
        *,
        source: Source = Source.API,
        actor: str,
        foreign: Mapping[str, dict[str, int]] | None = None,
        receipt: Receipt[_HostList] | None = None,
    ) -> Sequence[Host]:
        """All of them or none."""
        now_ms = self._clock.now_ms()
        pools = {pool.name: pool for pool in await self._store.pools()}
        rows = [
            with_room(
                Host(
                    id=0,
                    spec=spec,
                    source=source,
                    foreign=(foreign or {}).get(spec.name, {}),
                    created_ms=now_ms,
                    updated_ms=now_ms,
                ),
                pools.get(spec.pool),
            )
            for spec in specs
        ]
        async with self._mirror.turns.writing():
            async with transaction(self._store, self._doubt) as tx:
                ids = await tx.add_hosts(rows)
                hosts = [self._marked(msgspec.structs.replace(row, id=key)) for row, key in zip(rows, ids, strict=True)]
                if receipt is not None:
                    await tx.remember_answers([receipt.answer(hosts, now_ms)])
                since = await tx.append_events([_event(EventType.HOST_REGISTERED, host, actor=actor) for host in hosts])
            self._tell(hosts, since)
        self._knock()
        return hosts

    async def replace(self, spec: HostSpec, *, expected_version: int | None, actor: str) -> tuple[Host, bool]:
        """What is said about it, whole; a host not known yet is registered."""
        for _ in range(CHANGE_TRIES_MAX):
            if await self._store.host(spec.name) is not None:
                return await self.change(
                    spec.name, lambda _: spec, expected_version=expected_version, actor=actor
                ), False
            if expected_version is not None:
                raise NotFound(
                    f"no host {spec.name}", code="host_not_found", remedy="leave If-Match out to register it"
                )
            try:
                return (await self.register([spec], actor=actor))[0], True
            except Conflict:
                continue  # somebody registered it just now: replace that
        raise Conflict(f"host {spec.name} keeps changing", remedy="send it again")

    async def change(
        self, name: str, change: Callable[[HostSpec], HostSpec], *, expected_version: int | None, actor: str
    ) -> Host:
        """Read, change, write if nobody was faster; repeated when the caller named no version."""
        for number in range(CHANGE_TRIES_MAX):
            host = await self.get(name)
            if expected_version is not None and host.version != expected_version:
                raise VersionMismatch(
                    f"host {name} is at version {host.version}, not {expected_version}", current_version=host.version
                )
            spec = change(host.spec)
            if spec == host.spec:
                return host
            try:
                return await self.write(msgspec.structs.replace(host, spec=spec), actor=actor)
            except VersionMismatch:
                if expected_version is not None or number == CHANGE_TRIES_MAX - 1:
                    raise
        raise AssertionError("unreachable")

    async def write(self, host: Host, *, actor: str, event: EventType = EventType.HOST_CHANGED) -> Host:
        """A host read before, with something changed. VersionMismatch when it changed since."""
        pool = await self._store.pool(host.spec.pool)
        row = with_room(msgspec.structs.replace(host, updated_ms=self._clock.now_ms()), pool)
        async with self._mirror.turns.writing():
            async with transaction(self._store, self._doubt) as tx:
                changed = self._marked(await tx.change_host(row, expected_version=host.version))
                since = await tx.append_events([_event(event, changed, actor=actor)])
            self._tell([changed], since)
        self._knock()
        return changed

    async def cordon(
        self,
        name: str,
        *,
        cordoned: bool,
        expected_version: int | None,
        actor: str,
        receipt: Receipt[Host] | None = None,
    ) -> Host:
        now_ms = self._clock.now_ms()
        event = EventType.HOST_CORDONED if cordoned else EventType.HOST_UNCORDONED
        before = await self.get(name)
        since = 0
        async with self._mirror.turns.writing():
            async with transaction(self._store, self._doubt) as tx:
                if before.cordoned == cordoned and expected_version in (None, before.version):
                    host = before  # said twice: nothing changes, nothing is told
                else:
                    host = self._marked(
                        await tx.set_cordon(name, cordoned=cordoned, at_ms=now_ms, expected_version=expected_version)
                    )
                if receipt is not None:
                    await tx.remember_answers([receipt.answer(host, now_ms)])
                if host is not before:
                    since = await tx.append_events([_event(event, host, actor=actor)])
            if host is not before:
                self._tell([host], since)
        if host is not before:
            self._knock()
        return host

    async def delete(self, name: str, *, expected_version: int | None, actor: str) -> None:
        async with self._mirror.turns.writing():
            async with transaction(self._store, self._doubt) as tx:
                host = await tx.delete_host(name, at_ms=self._clock.now_ms(), expected_version=expected_version)
                await tx.append_events([_event(EventType.HOST_DELETED, host, actor=actor)])
            self._mirror.remove_host(host)

    def _tell(self, hosts: Sequence[Host], since: int) -> None:
        if not self._mirror.put_hosts(hosts, since=since):
            self._doubt()

    async def follow_pool(
        self, tx: Transaction, pool: PoolSpec, *, actor: str
    ) -> tuple[Sequence[Host], Sequence[Event]]:
        """The pool's ratios changed: so does the room of its hosts, in the same transaction."""
        changed: _HostList = []
        for host in await tx.hosts_of_pool(pool.name):
            row = with_room(host, Pool(spec=pool))
            if row != host:
                row = msgspec.structs.replace(row, updated_ms=self._clock.now_ms())
                changed.append(await tx.change_host(row, expected_version=host.version))
        return changed, [_event(EventType.HOST_CHANGED, host, actor=actor) for host in changed]


def with_room(host: Host, pool: Pool | None) -> Host:
    """The host with its totals: the ratio of the host, else of its pool, else 1."""
    spec = host.spec
    ratios = {**(pool.spec.overcommit if pool is not None else {}), **spec.overcommit}
    capacity = {VMS: VMS_DEFAULT, **spec.capacity}
    return msgspec.structs.replace(
        host,
        total=with_ratio(capacity, ratios),
        allocatable=allocatable(capacity, ratios, (spec.reserved, host.foreign)),
    )


def _event(what: EventType, host: Host, *, actor: str) -> Event:
    return Event(
        type=what,
        kind="host",
        id=host.name,
        version=host.version,
        at_ms=host.updated_ms,
        host=host.name,
        pool=host.spec.pool,
        actor=actor,
        data={"allocatable": dict(host.allocatable), "cordoned": host.cordoned},
    )
