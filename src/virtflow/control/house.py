"""Everything the API can ask for, in one frozen record that main builds."""

import dataclasses

from virtflow.control.answers import Answers
from virtflow.control.dead import Dead
from virtflow.control.event_feed import EventFeed
from virtflow.control.health import Health
from virtflow.control.hosts import Hosts
from virtflow.control.inventories import Inventories
from virtflow.control.metrics import Metrics
from virtflow.control.outlets import Outlets
from virtflow.control.placements import Placements
from virtflow.control.pools import Pools
from virtflow.control.processes import Processes
from virtflow.control.summary import Summary
from virtflow.control.tasks import Tasks
from virtflow.control.tracing import Tracer
from virtflow.control.vms import Vms
from virtflow.control.webhooks import Webhooks


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class House:
    hosts: Hosts
    pools: Pools
    vms: Vms
    tasks: Tasks
    dead: Dead
    placements: Placements
    events: EventFeed
    outlets: Outlets
    webhooks: Webhooks
    answers: Answers
    inventories: Inventories
    summary: Summary
    processes: Processes
    health: Health
    metrics: Metrics
    #: None where no traces are made
    tracer: Tracer | None = None
