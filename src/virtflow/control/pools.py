"""Pools: what holds for a group of hosts."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence

from virtflow.control.doubt import Doubt, transaction
from virtflow.control.hosts import Hosts
from virtflow.control.mirror import Mirror
from virtflow.model.clock import Clock
from virtflow.model.errors import NotFound
from virtflow.model.event import Event, EventType
from virtflow.model.pool import Pool, PoolSpec
from virtflow.model.views import PoolView
from virtflow.store.contract import Store


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    store: Store
    mirror: Mirror
    hosts: Hosts
    clock: Clock
    knock: Callable[[], None]
    doubt: Doubt
    #: the mirror must be told of changes in the order in which they were committed
    one_at_a_time: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)

    async def list(self) -> Sequence[PoolView]:
        return [self._view(pool) for pool in await self.store.pools()]

    async def get(self, name: str) -> PoolView:
        pool = await self.store.pool(name)
        if pool is None:
            raise NotFound(f"no pool {name!r}", code="no_such_pool", remedy="virtflow get pools shows them all")
        return self._view(pool)

    async def put(self, spec: PoolSpec, *, expected_version: int | None, actor: str) -> PoolView:
        now_ms = self.clock.now_ms()
        async with self.one_at_a_time, self.mirror.turns.writing():
            async with transaction(self.store, self.doubt) as tx:
                pool = await tx.put_pool(spec, at_ms=now_ms, expected_version=expected_version)
                hosts, events = await self.hosts.follow_pool(tx, spec, actor=actor)
                await tx.append_events([_event(EventType.POOL_CHANGED, pool, at_ms=now_ms, actor=actor), *events])
            self.mirror.put_pool(pool)
            if not self.mirror.put_hosts(hosts):
                self.doubt()
        self.knock()
        return self._view(pool)

    async def delete(self, name: str, *, expected_version: int | None, actor: str) -> None:
        """Forgets the settings. Hosts go on naming the pool, with the defaults of the installation."""
        now_ms = self.clock.now_ms()
        async with self.one_at_a_time, self.mirror.turns.writing():
            async with transaction(self.store, self.doubt) as tx:
                pool = await tx.delete_pool(name, expected_version=expected_version)
                hosts, events = await self.hosts.follow_pool(tx, PoolSpec(name=name), actor=actor)
                await tx.append_events([_event(EventType.POOL_DELETED, pool, at_ms=now_ms, actor=actor), *events])
            self.mirror.forget_pool(name)
            if not self.mirror.put_hosts(hosts):
                self.doubt()
        self.knock()

    def _view(self, pool: Pool) -> PoolView:
        return PoolView(
            pool=pool,
            hosts=self.mirror.fleet.hosts_in_pool(pool.name),
            effective_strategy=pool.spec.strategy or self.mirror.default_strategy,
        )


def _event(what: EventType, pool: Pool, *, at_ms: int, actor: str) -> Event:
    return Event(type=what, kind="pool", id=pool.name, version=pool.version, at_ms=at_ms, pool=pool.name, actor=actor)
