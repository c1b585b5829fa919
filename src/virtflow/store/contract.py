"""What a database must do for us: rows of each noun, read alone, written together.

A public method is one step in words; one `async with store.transaction() as tx` is one promise: all of it, or nothing.
Nothing waits for the network inside a transaction but the database itself.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from virtflow.model.dead import DeadKind, DeadLetter
from virtflow.model.errors import Conflict, Unavailable
from virtflow.model.event import Event
from virtflow.model.explanation import Explanation
from virtflow.model.history import FormerHistory
from virtflow.model.host import Host, HostSpec, Source
from virtflow.model.instance import Instance, Status
from virtflow.model.lease import Lease
from virtflow.model.outlet import Outlet, OutletMove
from virtflow.model.pool import Pool, PoolSpec
from virtflow.model.process import Process
from virtflow.model.shape import Shape
from virtflow.model.task import Step, Task, TaskState
from virtflow.model.webhook import Delivery, DeliveryState, TaskCallback, Webhook, WebhookHealth
from virtflow.store.secrets import AtRest, Place
from virtflow.store.vault import Vault


class NamesTaken(Conflict):
    """Some instances of a batch bear names in use; nothing of the batch was written."""

    code = "already_exists"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"already in use: {', '.join(names[:3])}", remedy="choose another name, or leave it out")
        self.names = frozenset(names)


class IdsTaken(Conflict):
    """Some tasks of a batch bear ids in use; nothing of the batch was written."""

    code = "already_exists"

    def __init__(self, ids: Sequence[bytes]) -> None:
        super().__init__("a task of that id exists", remedy="choose another task_id, or leave it out")
        self.ids = frozenset(ids)


class RetryTransaction(Unavailable):
    """Another transaction was in the way (a deadlock, or a race for a name); the same one may succeed at once."""

    code = "retry_transaction"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, remedy="run the transaction again from its beginning")


class RoomChange(msgspec.Struct, frozen=True):
    """What a batch takes from (or gives back to) one host, all its instances together."""

    host_id: int
    amounts: Mapping[str, int]
    instances: int


class TaskMove(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a task; refused when the task is no longer in state `was`."""

    id: bytes
    was: TaskState
    now: TaskState
    at_ms: int
    host_id: int | None = None
    attempt: int | None = None
    next_try_ms: int | None = None
    code: str | None = None
    reason: str | None = None
    explanation: Explanation | None = None
    #: appended to the history
    steps: tuple[Step, ...] = ()


class Bind(msgspec.Struct, frozen=True):
    """A waiting instance gets its host."""

    instance_id: bytes
    host_id: int
    placed_ms: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered to an Idempotency-Key, so that it can be answered again."""

    principal: str
    key: str
    request_hash: bytes
    status: int
    body: bytes
    created_ms: int
    #: response headers to repeat (Location, ETag)
    headers: tuple[tuple[str, str], ...] = ()


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that was there, and what it held."""

    instance: Instance
    shape: Shape


class HostFilter(msgspec.Struct, frozen=True, kw_only=True):
    pool: str | None = None
    zone: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    cordoned: bool | None = None
    missing: bool | None = None
    source: Source | None = None


class InstanceFilter(msgspec.Struct, frozen=True, kw_only=True):
    pool: str | None = None
    #: a host's name
    host: str | None = None
    status: Status | None = None
    #: True: has a host; False: waits for one
    placed: bool | None = None


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    states: tuple[TaskState, ...] = ()
    pool: str | None = None


class Changes(NamedTuple):
    """What others wrote, and up to which event number this is everything."""

    events: Sequence[Event]
    upto: int
    #: there was more than one page when it was read
    has_more: bool = False


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    #: exact types or prefixes ending in '.': "task."
    types: tuple[str, ...] = ()
    kind: str | None = None
    id: str | None = None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """For gauges and the fleet summary; always counted anew."""

    hosts: int
    instances: int
    instances_placed: int
    tasks: Mapping[TaskState, int]
    #: accepted_ms of the oldest task that is not over
    oldest_waiting_ms: int | None = None


class Transaction(Protocol):
    """Everything that is written. Methods may be called in any order, `append_events` last: it numbers them."""

    # who may write
    async def take_fence(self) -> int:
        """Become the newest leader: raises the epoch by one and returns it."""
        ...

    async def check_fence(self, epoch: int) -> None:
        """Raises Fenced when a newer leader exists. Holds until the commit."""
        ...

    # hosts and pools
    async def add_hosts(self, hosts: Sequence[Host]) -> list[int]:
        """New rows with their rooms; returns their ids. Conflict `already_exists` names the first that exists."""
        ...

    async def change_host(self, host: Host, *, expected_version: int | None) -> Host:
        """Everything but id, cordon, used and instances. VersionMismatch when it changed meanwhile.

        Returns the new row. A limit below what is used is recorded, and nothing more is taken until it fits again.
        """
        ...

    async def set_cordon(self, name: str, *, cordoned: bool, at_ms: int, expected_version: int | None) -> Host:
        """The cordon alone, so that it cannot be lost by a concurrent change of anything else."""
        ...

    async def delete_host(self, name: str, *, at_ms: int, expected_version: int | None) -> Host:
        """Conflict `host_in_use` while instances are on it. The row stays as a tombstone for old results."""
        ...

    async def hosts_of_pool(self, pool: str) -> list[Host]: ...

    async def put_pool(self, spec: PoolSpec, *, at_ms: int, expected_version: int | None) -> Pool: ...

    async def delete_pool(self, name: str, *, expected_version: int | None) -> Pool:
        """The explicit settings only. NotFound when there are none."""
        ...

    # the ledger
    async def take_room(self, changes: Sequence[RoomChange]) -> frozenset[int]:
        """The guarded write: used = used + r where used + r <= limit, for every dimension and host.

        Returns the hosts that refused (no room, gone, or without that dimension). When any refused, the caller must
        leave the transaction by an exception: the others' room was taken in it.
        """
        ...

    async def give_room(self, changes: Sequence[RoomChange]) -> None: ...

    # instances and tasks
    async def intern_shapes(self, shapes: Sequence[Shape]) -> list[int]:
        """The ids of these shapes, made where missing. Ids are never reused."""
        ...

    async def add_instances(self, instances: Sequence[Instance]) -> None:
        """NamesTaken names all that clash."""
        ...

    async def bind_instances(self, binds: Sequence[Bind], *, fence: int) -> frozenset[bytes]:
        """Gives waiting instances their host; returns those that were gone or bound already (nothing done to them)."""
        ...

    async def remove_instances(self, ids: Sequence[bytes], *, at_ms: int) -> list[Removed]:
        """Deletes the rows that exist and remembers their names as deleted; giving room back is the caller's."""
        ...

    async def add_tasks(self, tasks: Sequence[Task]) -> None:
        """IdsTaken names all that clash."""
        ...

    async def move_tasks(self, moves: Sequence[TaskMove]) -> frozenset[bytes]:
        """Moves the tasks still in their old state; returns the ids that were not.

        What a move leaves None stays as it is; but a completed task keeps no code, reason or explanation.
        """
        ...

    # answers and events
    async def remember_answers(self, answers: Sequence[Answer]) -> None:
        """Conflict `idempotency_key_in_use` when another transaction was first with one of the keys."""
        ...

    async def task_versions(self, ids: Sequence[bytes]) -> dict[bytes, int]:
        """As they are in this transaction, its own moves included."""
        ...

    async def append_events(self, events: Sequence[Event]) -> int:
        """Numbers the events without gaps in commit order; returns the first number. Once, and last."""
        ...

    # outlets
    async def add_outlets(self, outlets: Sequence[Outlet]) -> None:
        """Those whose name is known already stay as they are."""
        ...

    async def move_outlets(self, moves: Sequence[OutletMove]) -> frozenset[str]:
        """They were told of more. Returns those that are elsewhere meanwhile, or gone: nothing was done to them."""
        ...

    async def place_outlet(self, name: str, *, cursor: int, at_ms: int) -> None:
        """Wherever it is: whoever tells it finds out at the next move."""
        ...

    async def mark_outlet(self, name: str, *, error: str, at_ms: int) -> None:
        """Why it is told no further; its next move takes that back."""
        ...

    async def leave_outlet(self, name: str, *, was: int, now: int) -> int | None:
        """Moves its cursor over events that are about to be forgotten; returns its new version.

        None when it is elsewhere meanwhile, or gone: nothing was done.
        """
        ...

    async def enable_outlet(self, name: str, *, enabled: bool, at_ms: int) -> None: ...

    async def remove_outlet(self, name: str) -> None: ...

    # processes
    async def put_process(self, process: Process) -> None:
        """It is here, now: by the clock of the database."""
        ...

    async def remove_process(self, process_id: str) -> None: ...

    async def remove_silent_processes(self, *, silent_ms: int) -> None:
        """Those not seen for so long."""
        ...

    # dead letters
    async def add_dead(self, letters: Sequence[DeadLetter]) -> None:
        """Those that are written down already stay as they are."""
        ...

    async def requeue_dead(self, letter_id: str, *, now_as: str | None, at_ms: int) -> bool:
        """It was sent again. False: somebody was first, or it is gone."""
        ...

    async def remove_dead(self, letter_id: str) -> bool:
        """False: there is none."""
        ...

    async def begin_history(self, new_id: str, *, at_ms: int) -> None:
        """The rows came from a backup: another history_id, a fence beyond all leaders of before, an event that says so.

        Last in its transaction, as `append_events` is.
        """
        ...

    # webhooks
    async def add_webhook(self, webhook: Webhook, *, most: int) -> None:
        """Conflict `already_exists`, or `too_many_webhooks` when there are as many as there may be."""
        ...

    async def hold_webhook(self, name: str, *, expected_version: int | None = None) -> Webhook:
        """As it is until the commit. NotFound, VersionMismatch."""
        ...

    async def change_webhook(self, webhook: Webhook) -> Webhook:
        """One that is held; returns it as it is then. Its deliverer will look again."""
        ...

    async def give_webhook_work(self, name: str) -> None:
        """Its deliverer will look again, and nobody else sees a change."""
        ...

    async def mark_webhooks(self, marks: Sequence[WebhookHealth]) -> None:
        """What became known by sending. Those that are disabled or gone meanwhile stay so."""
        ...

    async def delete_webhook(self, name: str) -> None:
        """With all its messages."""
        ...

    async def add_deliveries(self, deliveries: Sequence[Delivery]) -> None: ...

    async def settle_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """How a try ended, for those that still wait."""
        ...

    async def hasten_deliveries(self, lines: Sequence[str], *, at_ms: int) -> None:
        """All that wait there are due now."""
        ...

    async def deliver_again(self, key: bytes, *, at_ms: int) -> bool:
        """It waits as if it were new; False when it waits already, or is gone."""
        ...

    async def forget_deliveries(self, line: str, state: DeliveryState, *, keep: int) -> int:
        """All but the newest of them; returns how many."""
        ...

    async def forget_callbacks(self, state: DeliveryState, *, keep: int) -> int:
        """The same for the callbacks of tasks, all together."""
        ...

    async def add_callbacks(self, callbacks: Sequence[TaskCallback]) -> None: ...

    async def callbacks_of(self, task_ids: Sequence[bytes]) -> list[TaskCallback]:
        """Who wants to hear of the end of these tasks."""
        ...

    async def take_callbacks(self, task_ids: Sequence[bytes]) -> list[TaskCallback]:
        """Who wants to hear of the end of these tasks; they are not found again."""
        ...

    async def reseal(self, place: Place, found: Sequence[AtRest]) -> None:
        """Under the key that seals today, where nobody has written anything else meanwhile."""
        ...

    async def set_setting(self, key: str, value: str) -> None:
        """Small state of our own, such as the round robin cursors."""
        ...


class Moment(Protocol):
    """Everything as one commit left it, in chunks, whatever is written meanwhile."""

    async def event_range(self) -> tuple[int, int]: ...
    async def pools(self) -> list[Pool]: ...
    async def pool(self, name: str) -> Pool | None: ...
    async def hosts_by_name(self, names: Sequence[str]) -> list[Host]: ...
    def all_hosts(self) -> AsyncIterator[list[Host]]: ...
    def scan_instances(self) -> AsyncIterator[list[Removed]]: ...
    def scan_tasks(self) -> AsyncIterator[list[Task]]: ...
    def scan_events(self) -> AsyncIterator[list[Event]]: ...
    def bare_rows(self, table: str) -> AsyncIterator[Sequence[Sequence[Any]]]:
        """The columns of `sql/history.sql`, in chunks: for who must not trust what we make of them."""
        ...


class Store(Protocol):
    """Reads see only what is committed. Lists are ordered and paged: `after` is the last key of the former page."""

    #: the name of this process in the log, where several processes write; empty otherwise
    origin: str

    async def open(self) -> None:
        """Connects, refuses a second process on an embedded file, migrates. Errors name setting, cause and remedy."""
        ...

    async def close(self) -> None: ...

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Commits at the end of the block, rolls back on any exception.

        OutcomeUnknown: the commit may have happened. RetryTransaction: the same one may succeed at once.
        """
        ...

    def moment(self) -> AbstractAsyncContextManager[Moment]:
        """One state of the database to read at leisure. Unavailable when it had to be cut off."""
        ...

    async def ping(self) -> None:
        """Unavailable when it does not answer in time."""
        ...

    async def hear(self, tell: Callable[[], None]) -> None:
        """Calls `tell` whenever anybody committed events, until cancelled. Unavailable when that breaks off."""
        ...

    # hosts and pools
    async def host(self, name: str) -> Host | None: ...
    async def hosts(self, where: HostFilter, *, after: str = "", limit: int) -> list[Host]: ...
    def all_hosts(self) -> AsyncIterator[list[Host]]:
        """In chunks, in name order: for the mirror."""
        ...

    async def hosts_by_name(self, names: Sequence[str]) -> list[Host]:
        """The living among these, in name order."""
        ...

    async def hosts_by_id(self, ids: Sequence[int]) -> list[Host]: ...
    async def pool(self, name: str) -> Pool | None: ...
    async def pools(self) -> list[Pool]:
        """Explicit ones and those that hosts name, in name order."""
        ...

    # instances and tasks
    async def shapes(self, ids: Sequence[int]) -> dict[int, Shape]: ...
    async def instance(self, key: bytes) -> Instance | None: ...
    async def instance_by_name(self, name: str) -> Instance | None: ...
    async def was_deleted(self, name: str) -> bool: ...
    async def instances(self, where: InstanceFilter, *, after: bytes = b"", limit: int) -> list[Instance]: ...
    async def task(self, key: bytes) -> Task | None: ...
    async def tasks(self, where: TaskFilter, *, after: bytes = b"", limit: int) -> list[Task]: ...
    def open_tasks(self) -> AsyncIterator[list[Task]]:
        """All that are not over, oldest first, in chunks: for a new leader."""
        ...

    async def waiting_tasks(self, ids: Sequence[bytes]) -> list[Task]:
        """Those of these that are not over, and whoever shares an all-or-nothing request with one of them."""
        ...

    async def counts(self) -> Counts: ...

    # answers, events, settings
    async def answer(self, principal: str, key: str) -> Answer | None: ...
    async def forget_answers(self, *, before_ms: int) -> int: ...
    async def events(self, where: EventFilter, *, after: int, limit: int) -> list[Event]:
        """Events with seq > after, in order. Gone when some of them are no longer kept."""
        ...

    async def changes(self, *, after: int, limit: int = 64) -> Changes:
        """What other processes than ours wrote after that number, in order; Gone when some of it is no longer kept."""
        ...

    async def event_range(self) -> tuple[int, int]:
        """The oldest kept and the newest number; (1, 0) when there is none yet."""
        ...

    async def trim_events(self, *, keep: int, upto: int | None = None) -> int:
        """Forgets the oldest; the last `keep` up to that number (default: the newest) stay, and all that follow.

        Returns how many were forgotten.
        """
        ...

    async def outlets(self) -> list[Outlet]:
        """All, in name order."""
        ...

    async def outlet(self, name: str) -> Outlet | None: ...

    # leases, each step a transaction of its own, and on a connection that waits for nobody's work
    async def lease(self, office: str) -> Lease | None: ...
    async def leases(self) -> list[Lease]:
        """All, in name order."""
        ...

    async def take_lease(self, office: str, *, holder: str, seen: Lease | None) -> Lease | None:
        """Compare and set. None when it is not as it was seen; `seen` None: there was none yet."""
        ...

    async def renew_lease(self, lease: Lease) -> Lease | None:
        """The next beat, if everything is as it was at the last one; None when somebody else has it."""
        ...

    async def leave_lease(self, lease: Lease) -> None:
        """Nobody holds it; does nothing when somebody else has it already."""
        ...

    async def note_lease(self, office: str, *, holder: str, term: int) -> None:
        """Who was elected by others than this database, for whoever looks here."""
        ...

    def lease_session(self) -> asyncio.Event:
        """Set when the session is gone on which the last of these steps was taken: others see that, too."""
        ...

    # processes
    async def now_ms(self) -> int:
        """By the clock of the database, which all processes share."""
        ...

    async def processes(self) -> list[Process]:
        """All that were seen lately, the oldest first."""

    # secrets
    @property
    def vault(self) -> Vault:
        """What seals them."""
        ...

    async def secrets_at_rest(self, place: Place, *, after: str | bytes, limit: int) -> list[AtRest]:
        """Rows with secrets, in the order of their keys; the first page is after an empty one."""
        ...

    # webhooks
    async def webhooks(self) -> list[Webhook]:
        """All, in name order."""
        ...

    async def webhook(self, name: str) -> Webhook | None: ...
    async def waiting_deliveries(self, line: str, *, limit: int) -> list[Delivery]:
        """The oldest that the line still must send."""
        ...

    async def newest_delivery(self) -> bytes | None:
        """The id that sorts last; None when there is no message at all."""
        ...

    async def waiting_lines(self) -> list[str]:
        """Which lines have something to send."""
        ...

    async def delivery(self, key: bytes) -> Delivery | None: ...
    async def deliveries(
        self, line: str | None, *, state: DeliveryState | None = None, before: bytes = b"", limit: int
    ) -> list[Delivery]:
        """The newest first, older than the id `before`; None: the callbacks of tasks."""
        ...

    async def count_deliveries(self) -> Mapping[tuple[str, DeliveryState], int]:
        """How many wait and how many were given up, by line."""
        ...

    async def any_callback(self) -> bool:
        """Whether anybody waits for the end of a task."""
        ...

    # dead letters
    async def dead(
        self, *, with_requeued: bool = False, kind: DeadKind | None = None, after: int = 0, limit: int
    ) -> list[DeadLetter]:
        """Oldest first; `after`: the number of the last of the former page."""
        ...

    async def dead_letter(self, letter_id: str) -> DeadLetter | None: ...
    async def dead_counts(self) -> dict[DeadKind, int]:
        """Of those that nobody has sent again."""
        ...

    async def forget_dead(self, *, before_ms: int) -> int: ...

    async def setting(self, key: str) -> str | None: ...
    async def history_id(self) -> str:
        """Drawn when the database was made; a consumer that sees another must start over."""
        ...

    async def former_histories(self) -> list[FormerHistory]:
        """What the log told before the database was restored from a backup, the oldest first."""
        ...

    async def check_history(self, history_id: str, *, after: int) -> None:
        """Raises HistoryOver when whoever read that history up to there has seen what never happened here."""
        ...

    # for fsck: everything, in chunks, from one snapshot where the database can
    def scan_instances(self) -> AsyncIterator[list[Removed]]: ...
    def scan_tasks(self) -> AsyncIterator[list[Task]]: ...
    def scan_events(self) -> AsyncIterator[list[Event]]: ...


__all__ = [
    "Answer",
    "Bind",
    "Changes",
    "Counts",
    "EventFilter",
    "HostFilter",
    "HostSpec",
    "IdsTaken",
    "InstanceFilter",
    "Moment",
    "NamesTaken",
    "Removed",
    "RetryTransaction",
    "RoomChange",
    "Store",
    "TaskFilter",
    "TaskMove",
    "Transaction",
]
