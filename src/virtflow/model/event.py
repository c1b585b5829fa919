"""What happened, in commit order, numbered without gaps. Every event that moves resources carries the deltas."""

import enum

import msgspec


class EventType(enum.StrEnum):
    HOST_REGISTERED = "host.registered"
    HOST_CHANGED = "host.changed"
    HOST_CORDONED = "host.cordoned"
    HOST_UNCORDONED = "host.uncordoned"
    HOST_MISSING = "host.missing"
    HOST_RETURNED = "host.returned"
    HOST_DELETED = "host.deleted"
    POOL_CHANGED = "pool.changed"
    POOL_DELETED = "pool.deleted"
    TASK_ACCEPTED = "task.accepted"
    TASK_RETRIED = "task.retried"
    TASK_COMPLETED = "task.completed"
    TASK_FAILED = "task.failed"
    TASK_CANCELLED = "task.cancelled"
    VM_DELETED = "vm.deleted"
    DEAD_ADDED = "dead.added"
    DEAD_REQUEUED = "dead.requeued"
    DEAD_DELETED = "dead.deleted"
    OUTLET_LEFT_BEHIND = "outlet.left_behind"
    DATABASE_RESTORED = "database.restored"
    LEADER_ELECTED = "leader.elected"
    WEBHOOK_CREATED = "webhook.created"
    WEBHOOK_CHANGED = "webhook.changed"
    WEBHOOK_ROTATED = "webhook.rotated"
    WEBHOOK_ENABLED = "webhook.enabled"
    WEBHOOK_DISABLED = "webhook.disabled"
    WEBHOOK_DELETED = "webhook.deleted"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One state change of one object. `seq` is given by the store when the transaction commits."""

    type: EventType
    #: of what: host, pool, task, vm, dead (a dead letter), outlet, webhook, database or leader
    kind: str
    #: its name (host, pool, outlet, webhook), its office (leader) or id (task, vm, database: that of its history)
    id: str
    #: the object's version after this event
    version: int = 1
    at_ms: int = 0
    seq: int = 0
    task: str = ""
    vm: str = ""
    host: str = ""
    pool: str = ""
    #: signed change of what is taken from `host`, per dimension
    delta: dict[str, int] | msgspec.Raw | None = None
    #: the epoch of the leader that decided, 0 where nobody decided
    fence: int = 0
    actor: str = ""
    code: str = ""
    text: str = ""
    #: the state before and after, for objects with a state table
    was: str = ""
    now: str = ""
    data: dict[str, object] | None = None
    #: the `traceparent` of the request behind it, where traces are made
    trace: str = ""
    #: the process that wrote it, where there are several; given by the store when it is read
    origin: str = ""
