"""What is answered to readers: rows together with what they refer to."""

import msgspec

from virtflow.model.event import Event
from virtflow.model.explanation import Explanation
from virtflow.model.instance import Instance
from virtflow.model.outlet import Outlet
from virtflow.model.pool import Pool
from virtflow.model.secret import Secret
from virtflow.model.shape import Shape
from virtflow.model.task import Task
from virtflow.model.webhook import Webhook


class VmView(msgspec.Struct, frozen=True, kw_only=True):
    instance: Instance
    shape: Shape
    task_id: bytes
    #: why it still waits, computed now; None when placed, and in lists
    explanation: Explanation | None = None


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    task: Task
    shape: Shape
    #: stored when the task is over, computed now while it waits
    explanation: Explanation | None = None


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    pool: Pool
    hosts: int
    effective_strategy: str


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    webhook: Webhook
    #: the number of the last event that it was told of, or that stands in its queue
    cursor: int
    waiting: int = 0
    dead: int = 0
    #: shown once, to whoever made it
    secret: Secret | None = None


class DeletedMany(msgspec.Struct, frozen=True, kw_only=True):
    deleted: int
    absent: list[str]


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[Event]
    next_after: int
    oldest: int
    newest: int
    history_id: str


class OutletView(msgspec.Struct, frozen=True, kw_only=True):
    outlet: Outlet
    #: so many events it has not been told of
    behind: int
    #: so long ago the oldest of them happened
    behind_s: float


class SkippedRecord(msgspec.Struct, frozen=True, kw_only=True):
    record: str
    problem: str


class InventoryReport(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    location: str
    #: fresh, stale or never
    state: str
    last_success_ms: int | None
    age_s: float | None
    last_error: str | None
    hosts: int
    skipped: tuple[SkippedRecord, ...] = ()
    skipped_total: int = 0


class PoolSummary(msgspec.Struct, frozen=True, kw_only=True):
    pool: str
    hosts: int
    schedulable: int
    cordoned: int
    missing: int
    #: they carry virtflow itself
    self_hosts: int
    instances: int
    #: dimension -> amount
    total: dict[str, int]
    allocatable: dict[str, int]
    used: dict[str, int]


class FleetSummary(msgspec.Struct, frozen=True, kw_only=True):
    pools: tuple[PoolSummary, ...]
    tasks: dict[str, int]
    instances: int
    instances_placed: int
    oldest_waiting_s: float | None
    default_strategy: str
    inventory: tuple[InventoryReport, ...]
