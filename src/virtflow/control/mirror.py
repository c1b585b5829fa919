"""The fleet in memory: what the database says, plus the room of placements on their way into it."""

from collections.abc import Iterable

import msgspec

from virtflow.engine.fleet import Fleet
from virtflow.model.host import Host
from virtflow.model.pool import Pool
from virtflow.model.shape import Shape
from virtflow.store.contract import Store


class Mirror:
    """Kept by this process's own commits. `opening` counts changes that may let something fit that did not before."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.opening = 0
        self._addresses: dict[int, str] = {}
        self._pool_names: frozenset[str] | None = None

    async def load(self, store: Store) -> None:
        """Everything anew. No placement may be on its way meanwhile."""
        fleet = self.fleet.emptied()
        addresses: dict[int, str] = {}
        for pool in await store.pools():
            fleet.put_pool(pool)
        async for hosts in store.all_hosts():
            fleet.put_hosts(hosts)
            addresses.update((host.id, host.spec.address) for host in hosts)
        self.fleet, self._addresses = fleet, addresses
        self._opened()

    @property
    def pool_names(self) -> frozenset[str]:
        """Asked for every request, so it is counted only after the fleet changed."""
        if self._pool_names is None:
            self._pool_names = frozenset(self.fleet.pool_names)
        return self._pool_names

    def address(self, host_id: int) -> str:
        return self._addresses.get(host_id, "")

    def put_hosts(self, hosts: Iterable[Host]) -> None:
        """New or changed hosts. What is taken from a known one is known better here than in the row."""
        fresh = [self._with_known_room(host) for host in hosts]
        self.fleet.put_hosts(fresh)
        self._addresses.update((host.id, host.spec.address) for host in fresh)
        self._opened()

    def _with_known_room(self, host: Host) -> Host:
        room = self.fleet.room(host.name)
        return host if room is None else msgspec.structs.replace(host, used=room[0], instances=room[1])

    def remove_host(self, host: Host) -> None:
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

    def set_rooms(self, hosts: Iterable[Host]) -> None:
        """What the database says after it refused us. No placement may be on its way meanwhile."""
        for host in hosts:
            self.fleet.set_room(host.name, dict(host.used), host.instances)
        self._opened()

    def _opened(self) -> None:
        self.opening += 1
        self._pool_names = None
