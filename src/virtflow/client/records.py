"""What the API answers, as records. Fields that this version does not know are kept in `document` and ignored."""

import datetime
from typing import TypeVar

import msgspec

from virtflow.client.errors import BadAnswer

Time = datetime.datetime
Amounts = dict[str, int]


class Record(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything an answer may leave out has a default, so that older and newer servers can be read."""

    @property
    def document(self) -> dict[str, object]:
        """The JSON object exactly as it was answered."""
        raw = self.__dict__.get("raw", b"{}")
        return msgspec.json.decode(raw, type=dict[str, object])


R = TypeVar("R", bound=Record)


def read(raw: bytes | msgspec.Raw, of: type[R]) -> R:
    """One answered object as a record that remembers its own text."""
    try:
        record = msgspec.json.decode(raw, type=of)
    except msgspec.MsgspecError as error:
        raise BadAnswer(
            f"the answer is not what a virtflow server says about a {of.__name__.lower()}: {error}",
            remedy="check that the address is a virtflow server's, and of a version near this one",
        ) from error
    record.__dict__["raw"] = raw
    return record


def read_all(raw: bytes | msgspec.Raw, of: type[R]) -> list[R]:
    return [read(item, of) for item in msgspec.json.decode(raw, type=list[msgspec.Raw])]


class Refusals(Record, frozen=True, kw_only=True):
    filter: str
    hosts: int = 0
    alone: int = 0


class NearestMiss(Record, frozen=True, kw_only=True):
    #: None in the tenants' view
    host: str | None = None
    short: Amounts = {}
    refused_by: tuple[str, ...] = ()
    text: str = ""


class Change(Record, frozen=True, kw_only=True):
    code: str = ""
    text: str = ""
    hosts: int = 0
    #: the request's fields to change, as the API spells them
    request: dict[str, object] = {}


class Explanation(Record, frozen=True, kw_only=True):
    code: str = ""
    text: str = ""
    kind: str = ""
    hosts_considered: int = 0
    filters: tuple[Refusals, ...] = ()
    nearest: NearestMiss | None = None
    changes: tuple[Change, ...] = ()


class Host(Record, frozen=True, kw_only=True):
    name: str
    pool: str = ""
    address: str = ""
    capacity: Amounts = {}
    overcommit: dict[str, float] = {}
    reserved: Amounts = {}
    labels: dict[str, str] = {}
    zone: str = ""
    rack: str = ""
    model: str = ""
    dedicated: bool = False
    cordoned: bool = False
    schedulable: bool = True
    carries_virtflow: bool = False
    source: str = ""
    foreign: Amounts = {}
    missing_since: Time | None = None
    total: Amounts = {}
    allocatable: Amounts = {}
    used: Amounts = {}
    free: Amounts = {}
    instances: int = 0
    version: int = 0
    created_at: Time | None = None
    updated_at: Time | None = None


class Pool(Record, frozen=True, kw_only=True):
    name: str
    explicit: bool = True
    overcommit: dict[str, float] = {}
    strategy: str = ""
    effective_strategy: str = ""
    accepts_work: bool = True
    hosts: int = 0
    version: int = 0
    created_at: Time | None = None
    updated_at: Time | None = None


class Condition(Record, frozen=True, kw_only=True):
    type: str
    state: bool = False


class Vm(Record, frozen=True, kw_only=True):
    name: str
    id: str = ""
    task_id: str = ""
    #: pending, running, failed, unknown
    status: str = ""
    conditions: tuple[Condition, ...] = ()
    host: str | None = None
    address: str | None = None
    pool: str = ""
    resources: Amounts = {}
    dedicated: str = "allowed"
    labels: dict[str, str] = {}
    zone: str = ""
    strategy: str = ""
    generation: int = 0
    version: int = 0
    created_at: Time | None = None
    placed_at: Time | None = None
    explanation: Explanation | None = None

    @property
    def is_placed(self) -> bool:
        return self.host is not None

    @property
    def is_waiting(self) -> bool:
        return self.host is None and self.status == "pending"


class Step(Record, frozen=True, kw_only=True):
    at: Time | None = None
    state: str = ""
    note: str = ""


class Task(Record, frozen=True, kw_only=True):
    task_id: str
    vm: str = ""
    vm_id: str = ""
    #: queued, processing, completed, failed, cancelled
    state: str = ""
    pool: str = ""
    resources: Amounts = {}
    dedicated: str = "allowed"
    labels: dict[str, str] = {}
    zone: str = ""
    strategy: str = ""
    weights: dict[str, float] = {}
    priority: int = 0
    when_unplaceable: str = ""
    host: str | None = None
    address: str | None = None
    attempts: int = 0
    accepted_at: Time | None = None
    next_try_at: Time | None = None
    deadline_at: Time | None = None
    ended_at: Time | None = None
    duration_ms: float | None = None
    code: str | None = None
    reason: str | None = None
    explanation: Explanation | None = None
    history: tuple[Step, ...] = ()
    version: int = 0

    @property
    def is_over(self) -> bool:
        return self.state in {"completed", "failed", "cancelled"}


class DeadLetter(Record, frozen=True, kw_only=True):
    """What failed for good. Of a failed request it bears the id of its task."""

    id: str
    #: task, message
    kind: str = ""
    code: str = ""
    reason: str = ""
    at: Time | None = None
    tasks: tuple[str, ...] = ()
    vm: str = ""
    pool: str = ""
    message: str | None = None
    requeued_at: Time | None = None
    requeued_as: str | None = None


class ScorePart(Record, frozen=True, kw_only=True):
    name: str
    weight: float = 1.0
    value: float = 0.0


class Candidate(Record, frozen=True, kw_only=True):
    host: str | None = None
    score: float = 0.0
    instances: int = 0
    free: Amounts = {}
    parts: tuple[ScorePart, ...] = ()


class Preview(Record, frozen=True, kw_only=True):
    """What placing would do: the winner and the runners-up, or the refusal."""

    placeable: bool
    strategy: str = ""
    hosts_possible: int = 0
    winner: Candidate | None = None
    runners_up: tuple[Candidate, ...] = ()
    explanation: Explanation | None = None


class Previews(Record, frozen=True, kw_only=True):
    """A list tried in order, where each sees the room that the former took."""

    items: tuple[Preview, ...] = ()
    placeable: int = 0
    refused: int = 0


class PoolCapacity(Record, frozen=True, kw_only=True):
    pool: str
    hosts: int = 0
    total: int = 0
    total_after_loss: int = 0
    biggest_host: str | None = None


class Capacity(Record, frozen=True, kw_only=True):
    resources: Amounts = {}
    total: int = 0
    total_after_loss: int = 0
    pools: tuple[PoolCapacity, ...] = ()


class Strategy(Record, frozen=True, kw_only=True):
    name: str
    optimises: str = ""
    formula: str = ""
    weights: dict[str, float] | None = None
    default: bool = False


class Office(Record, frozen=True, kw_only=True):
    """That a process holds."""

    office: str
    term: int = 0
    since: Time | None = None


class Unwell(Record, frozen=True, kw_only=True):
    """A part of a process that does not work as it should."""

    part: str
    status: str = ""
    since: Time | None = None
    cause: str = ""
    remedy: str = ""


class Process(Record, frozen=True, kw_only=True):
    """One of those that share a database."""

    id: str
    node: str = ""
    roles: list[str] = []
    offices: list[Office] = []
    #: here, stopped or silent
    state: str = ""
    #: ok, degraded or failing; None of who is not here
    health: str | None = None
    unwell: list[Unwell] = []
    address: str = ""
    version: str = ""
    started_at: Time | None = None
    seen_at: Time | None = None


class SkippedRecord(Record, frozen=True, kw_only=True):
    record: str = ""
    problem: str = ""


class Inventory(Record, frozen=True, kw_only=True):
    """How fresh the knowledge about hosts is that came from one source."""

    source: str = ""
    location: str = ""
    #: fresh, stale, never
    state: str = ""
    last_success_at: Time | None = None
    age_s: float | None = None
    last_error: str | None = None
    hosts: int = 0
    skipped: tuple[SkippedRecord, ...] = ()
    skipped_total: int = 0


class PoolSummary(Record, frozen=True, kw_only=True):
    pool: str
    hosts: int = 0
    schedulable: int = 0
    cordoned: int = 0
    missing: int = 0
    self_hosts: int = 0
    instances: int = 0
    total: Amounts = {}
    allocatable: Amounts = {}
    used: Amounts = {}


class Fleet(Record, frozen=True, kw_only=True):
    pools: tuple[PoolSummary, ...] = ()
    #: task state -> how many
    tasks: dict[str, int] = {}
    instances: int = 0
    instances_placed: int = 0
    oldest_waiting_s: float | None = None
    default_strategy: str = ""
    inventory: tuple[Inventory, ...] = ()


class Event(Record, frozen=True, kw_only=True):
    seq: int = 0
    type: str = ""
    kind: str = ""
    id: str = ""
    version: int = 0
    at: Time | None = None
    task: str = ""
    vm: str = ""
    host: str = ""
    pool: str = ""
    delta: Amounts | None = None
    fence: int = 0
    #: the process that wrote it, where there are several
    origin: str = ""
    actor: str = ""
    code: str = ""
    text: str = ""
    was: str = ""
    now: str = ""
    data: dict[str, object] | None = None


class Outlet(Record, frozen=True, kw_only=True):
    """Who is told of events: a bus, or the receiver of a webhook."""

    name: str
    kind: str = ""
    #: ok, failing, disabled
    state: str = ""
    #: it was told of every event up to this number
    cursor: int = 0
    behind: int = 0
    behind_s: float = 0.0
    error: str = ""
    failing_since: Time | None = None
    created_at: Time | None = None
    updated_at: Time | None = None


class EventRange(Record, frozen=True, kw_only=True):
    """Where the log begins and ends; another `history_id` is another log: start over."""

    next_after: int = 0
    oldest: int = 1
    newest: int = 0
    history_id: str = ""


class Webhook(Record, frozen=True, kw_only=True):
    name: str
    url: str = ""
    description: str = ""
    #: none: everything
    events: tuple[str, ...] = ()
    enabled: bool = True
    #: active, failing, disabled
    state: str = ""
    code: str = ""
    reason: str = ""
    failing_since: Time | None = None
    cursor: int = 0
    waiting: int = 0
    dead: int = 0
    overlap_until: Time | None = None
    version: int = 0
    created_at: Time | None = None
    updated_at: Time | None = None
    #: only in the answer that made it
    secret: str = ""


class Delivery(Record, frozen=True, kw_only=True):
    id: str
    message_id: str = ""
    seq: int = 0
    type: str = ""
    subject: str = ""
    #: waiting, delivered, dead
    state: str = ""
    tries: int = 0
    status: int = 0
    code: str = ""
    duration_ms: int = 0
    created_at: Time | None = None
    next_try_at: Time | None = None
    ended_at: Time | None = None


class Deleted(Record, frozen=True, kw_only=True):
    deleted: int = 0
    absent: tuple[str, ...] = ()


class Info(Record, frozen=True, kw_only=True):
    version: str = ""
    database: str = ""
    history_id: str = ""
    strategy: str = ""
