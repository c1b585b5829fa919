"""The fleet in numbers: by pool and dimension, and what waits."""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping

from virtflow.control.inventories import Inventories
from virtflow.control.mirror import Mirror
from virtflow.model.clock import Clock
from virtflow.model.host import Host
from virtflow.model.task import TaskState
from virtflow.model.views import FleetSummary, PoolSummary
from virtflow.store.contract import Store


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    store: Store
    inventories: Inventories
    clock: Clock
    mirror: Mirror

    async def fleet(self) -> FleetSummary:
        """Counted anew from the database each time; nothing is accumulated."""
        by_pool: dict[str, list[Host]] = defaultdict(list)
        async for hosts in self.store.all_hosts():
            for host in hosts:
                by_pool[host.spec.pool].append(self.mirror.self_hosts.marked(host))
        counts = await self.store.counts()
        oldest = counts.oldest_waiting_ms
        return FleetSummary(
            pools=tuple(_pool_summary(pool, by_pool[pool]) for pool in sorted(by_pool)),
            tasks={state.word: counts.tasks.get(state, 0) for state in TaskState},
            instances=counts.instances,
            instances_placed=counts.instances_placed,
            oldest_waiting_s=None if oldest is None else max(0.0, (self.clock.now_ms() - oldest) / 1000),
            default_strategy=self.mirror.default_strategy,
            inventory=tuple(self.inventories.report()),
        )


def _pool_summary(pool: str, hosts: list[Host]) -> PoolSummary:
    return PoolSummary(
        pool=pool,
        hosts=len(hosts),
        schedulable=sum(host.is_schedulable for host in hosts),
        cordoned=sum(host.cordoned for host in hosts),
        missing=sum(host.missing_since_ms is not None for host in hosts),
        self_hosts=sum(host.carries_virtflow for host in hosts),
        instances=sum(host.instances for host in hosts),
        total=_sum([host.total for host in hosts]),
        allocatable=_sum([host.allocatable for host in hosts]),
        used=_sum([host.used for host in hosts]),
    )


def _sum(parts: list[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = defaultdict(int)
    for part in parts:
        for name, amount in part.items():
            total[name] += amount
    return dict(sorted(total.items()))
