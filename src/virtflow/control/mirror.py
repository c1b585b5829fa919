"""The fleet in memory: what the database says, plus the room of placements on their way into it."""

from collections.abc import Iterable, Mapping

import msgspec

from virtflow.control.self_hosts import SelfHosts
from virtflow.control.turns import Turns
from virtflow.engine.fleet import Fleet
from virtflow.model.host import Host
from virtflow.model.pool import Pool
from virtflow.model.shape import Shape
from virtflow.store.contract import Moment, Store


class Mirror:
    """Kept by this process's own commits, and by a follower of those of others.

    `opening` counts changes that may let something fit that did not before.
    """

    def __init__(self, fleet: Fleet, self_hosts: SelfHosts | None = None) -> None:
        self.fleet = fleet
        self.self_hosts = self_hosts or SelfHosts()
        self.opening = 0
        #: what others wrote up to here is in it
        self.position = 0
        #: a write of ours and the telling of it are one turn; reading the rows anew falls before it, or after it
        self.turns = Turns()
        #: host id -> the newest version told: tellings may come in another order than commits
        self._versions: dict[int, int] = {}
        self._addresses: dict[int, str] = {}
        #: hosts read later than `position`: what the log says of them up to there is in them already
        self._read_at: dict[str, int] = {}
        self._pool_names: frozenset[str] | None = None

    async def load(self, store: Store) -> None:
        """Everything anew, as one moment has it. No placement of ours may be on its way meanwhile."""
        async with self.turns.reading():
            await self._load(store)

    async def _load(self, store: Store) -> None:
        fleet = self.fleet.emptied()
        addresses: dict[int, str] = {}
        async with store.moment() as moment:
            _, position = await moment.event_range()
            for pool in await moment.pools():
                fleet.put_pool(pool)
            async for hosts in moment.all_hosts():
                fleet.put_hosts(map(self.self_hosts.marked, hosts))
                addresses.update((host.id, host.spec.address) for host in hosts)
        self.fleet, self._addresses, self.position = fleet, addresses, position
        self._read_at, self._versions = {}, {}
        self._opened()

    @property
    def default_strategy(self) -> str:
        """The one of the installation, as of now."""
        return self.fleet.default_strategy

    def use_strategy(self, name: str) -> None:
        self.fleet.use_strategy(name)
        self.opening += 1

    @property
    def pool_names(self) -> frozenset[str]:
        """Asked for every request, so it is counted only after the fleet changed."""
        if self._pool_names is None:
            self._pool_names = frozenset(self.fleet.pool_names)
        return self._pool_names

    def address(self, host_id: int) -> str:
        return self._addresses.get(host_id, "")

    # ── what this process wrote ───────────────────────────────────────────────────────────────────

    def put_hosts(self, hosts: Iterable[Host], *, since: int = 0) -> bool:
        """Hosts that we made or changed. False: read everything anew.

        `since`: the number of the event that tells of it. What the log says before is of earlier hosts of that name.
        Of a host that others made and we have not heard of yet, the row tells the room at a moment that the log does
        not name: what the log brings next may be in it already.
        """
        hosts = list(hosts)
        known = [host for host in hosts if host.version == 1 or self._knows(host)]
        if since:
            self._read_at.update((host.name, since) for host in known if not self._knows(host))
        self._put(known)
        return len(known) == len(hosts)

    def _put(self, hosts: Iterable[Host]) -> None:
        """What is taken from a known one is known better here than in the row."""
        newest = self._versions
        news = [host for host in hosts if host.version >= newest.get(host.id, 0)]
        newest.update((host.id, host.version) for host in news)
        fresh = [self._with_known_room(self.self_hosts.marked(host)) for host in news]
        self.fleet.put_hosts(fresh)
        self._addresses.update((host.id, host.spec.address) for host in fresh)
        self._opened()

    def _knows(self, host: Host) -> bool:
        """Not only an earlier host of that name."""
        return host.name in self.fleet and self.fleet.host(host.name).id == host.id

    def _with_known_room(self, host: Host) -> Host:
        room = self.fleet.room(host.name) if self._knows(host) else None
        if room is None:
            return host
        return msgspec.structs.replace(host, used=room[0], instances=room[1])

    def see_machines(self, machines: Iterable[str]) -> bool:
        """Where processes of virtflow run now; says whether other hosts than before carry them."""
        if not self.self_hosts.see(machines):
            return False
        carries, addresses = self.self_hosts.carries, self._addresses
        marks = [carries(name, addresses.get(key, ""), labels) for name, key, labels in self.fleet.labels()]
        is_news = self.fleet.set_self_hosts(marks)
        if is_news:
            self._opened()
        return is_news

    def remove_host(self, host: Host) -> None:
        self._versions[host.id] = host.version
        if self._knows(host):  # else another bears its name by now
            self.fleet.remove_host(host.name)
        self._addresses.pop(host.id, None)
        self._pool_names = None

    def put_pool(self, pool: Pool) -> None:
        self.fleet.put_pool(pool)
        self._opened()

    def forget_pool(self, name: str) -> None:
        self.fleet.remove_pool(name)
        self._opened()

    def give(self, host_id: int, shape: Shape) -> None:
        self.fleet.give(host_id, shape)
        self.opening += 1

    # ── what others wrote ─────────────────────────────────────────────────────────────────────────

    async def reread(self, store: Store, *, hosts: set[str], pools: set[str]) -> None:
        """Hosts and pools that others said something about, as they are now."""
        async with self.turns.reading(), store.moment() as moment:
            await self._reread(moment, hosts=hosts, pools=pools)

    async def _reread(self, moment: Moment, *, hosts: set[str], pools: set[str]) -> None:
        _, position = await moment.event_range()
        for name in sorted(pools):
            pool = await moment.pool(name)
            if pool is None:
                self.fleet.remove_pool(name)
            else:
                self.fleet.put_pool(pool)
        found = await moment.hosts_by_name(sorted(hosts))
        self._read_at.update((host.name, position) for host in found if not self._knows(host))
        for name in sorted(hosts - {host.name for host in found}):
            self.fleet.remove_host(name)
        self._put(found)

    async def settle(self) -> None:
        """Returns when what we are writing now has been told."""
        async with self.turns.reading():
            pass

    def change_room(self, name: str, taken: Mapping[str, int], instances: int) -> None:
        """By others' placements and deletions."""
        self.fleet.change_room(name, taken, instances)
        if instances < 0:
            self.opening += 1

    def knows_already(self, name: str, seq: int) -> bool:
        """Is this event in what was read of the host?"""
        return seq <= self._read_at.get(name, 0)

    def followed(self, position: int) -> None:
        self.position = position
        if self._read_at:
            self._read_at = {name: at for name, at in self._read_at.items() if at > position}

    def _opened(self) -> None:
        self.opening += 1
        self._pool_names = None
