"""Proves from the database alone that the promises hold: no overcommit ever, one end for each task, rows = last event.

It reads rows and events only, and asks `engine/verify`, which shares no code with the deciding.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable

from virtflow.engine.verify import verify
from virtflow.model.event import Event, EventType
from virtflow.model.host import Host
from virtflow.model.names import id_to_text
from virtflow.model.task import TERMINAL, TaskState
from virtflow.model.violation import Held, HostRoom, Violation
from virtflow.store.contract import Moment, Store

#: more are counted, not listed
VIOLATIONS_SHOWN_MAX = 100

_ENDS = {
    EventType.TASK_COMPLETED: TaskState.COMPLETED,
    EventType.TASK_FAILED: TaskState.FAILED,
    EventType.TASK_CANCELLED: TaskState.CANCELLED,
}
_MOVES = {**_ENDS, EventType.TASK_ACCEPTED: TaskState.QUEUED, EventType.TASK_RETRIED: TaskState.QUEUED}


@dataclasses.dataclass(slots=True)
class Report:
    hosts: int = 0
    instances: int = 0
    tasks: int = 0
    events: int = 0
    #: False: the oldest events are no longer kept, so objects older than them were checked by their rows alone
    whole_history: bool = True
    violations: list[Violation] = dataclasses.field(default_factory=list)
    violations_total: int = 0

    def add(self, code: str, text: str, **where: str) -> None:
        self.violations_total += 1
        if len(self.violations) < VIOLATIONS_SHOWN_MAX:
            self.violations.append(Violation(code=code, text=text, **where))


class _History:
    """What the event log says, replayed."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.tasks: dict[str, tuple[TaskState, int]] = {}
        self.hosts: dict[str, tuple[bool, int] | None] = {}
        self.placed: dict[str, str] = {}
        self.used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.allocatable: dict[str, dict[str, int]] = {}
        self.last_seq: int | None = None
        self.last_fence = 0

    def take(self, event: Event) -> None:
        self._check_order(event)
        if event.delta is not None:
            self._move_room(event)
        if event.kind == "task":
            self._move_task(event)
        elif event.kind == "vm":
            self.placed.pop(event.id, None)
        elif event.kind == "host":
            self._move_host(event)

    def _check_order(self, event: Event) -> None:
        if self.last_seq is not None and event.seq != self.last_seq + 1:
            self.report.add("event_gap", f"event {event.seq} follows {self.last_seq}")
        self.last_seq = event.seq
        if event.type is EventType.TASK_COMPLETED:
            if event.fence < self.last_fence:
                self.report.add("stale_fence", f"event {event.seq} bears fence {event.fence} after {self.last_fence}")
            self.last_fence = max(self.last_fence, event.fence)

    def _move_room(self, event: Event) -> None:
        used, limits = self.used[event.host], self.allocatable.get(event.host)
        takes = event.type is not EventType.VM_DELETED
        for name, amount in dict(event.delta or {}).items():  # type: ignore[arg-type]
            used[name] += amount
            if used[name] < 0 and self.report.whole_history:
                self.report.add("negative_use", f"after event {event.seq} {event.host} uses {used[name]} {name}")
            if takes and limits is not None and self.report.whole_history and used[name] > limits.get(name, 0):
                self.report.add(
                    "overcommit", f"event {event.seq} took {name} to {used[name]} of {limits.get(name, 0)}",
                    host=event.host, dimension=name,
                )  # fmt: skip

    def _move_task(self, event: Event) -> None:
        before = self.tasks.get(event.id)
        now = _MOVES[event.type]
        if before is not None and before[0] in TERMINAL:
            self.report.add("ended_twice", f"event {event.seq} moves task {event.id}, which was {before[0].word}")
        if event.version != (before[1] if before else 0) + 1 and (before is not None or self.report.whole_history):
            self.report.add("version_gap", f"event {event.seq} makes task {event.id} version {event.version}")
        self.tasks[event.id] = (now, event.version)
        if now is TaskState.COMPLETED:
            if event.id in self.placed:
                self.report.add("placed_twice", f"event {event.seq} places {event.id} again", instance=event.id)
            self.placed[event.id] = event.host

    def _move_host(self, event: Event) -> None:
        data = event.data or {}
        self.hosts[event.id] = (bool(data.get("cordoned")), event.version)
        self.allocatable[event.id] = data.get("allocatable") or {}  # type: ignore[assignment]
        if event.type is EventType.HOST_DELETED:
            self.hosts[event.id] = None
            self.used.pop(event.id, None)


async def fsck(store: Store, *, progress: Callable[[str, int], None] = lambda what, count: None) -> Report:
    """Reads everything once, as one commit left it; the database may be in use meanwhile."""
    async with store.moment() as moment:
        return await _check(moment, progress)


async def _check(store: Moment, progress: Callable[[str, int], None]) -> Report:
    report = Report()
    oldest, _ = await store.event_range()
    report.whole_history = oldest <= 1
    history = _History(report)
    async for events in store.scan_events():
        for event in events:
            history.take(event)
        report.events += len(events)
        progress("events", report.events)
    hosts = await _check_ledger(store, report, history, progress)
    await _check_tasks(store, report, history, progress)
    _check_hosts(report, history, hosts)
    return report


async def _check_ledger(
    store: Moment, report: Report, history: _History, progress: Callable[[str, int], None]
) -> list[Host]:
    hosts: list[Host] = []
    async for some in store.all_hosts():
        hosts += some
    report.hosts = len(hosts)
    held: list[Held] = []
    async for rows in store.scan_instances():
        report.instances += len(rows)
        progress("instances", report.instances)
        for row in rows:
            key = id_to_text(row.instance.id)
            told = history.placed.pop(key, None)
            if row.instance.host_id is None:
                if told is not None:
                    report.add("row_differs", f"instance {key} waits, the last event placed it on {told}", instance=key)
                continue
            if told != row.instance.host and (told is not None or report.whole_history):
                report.add(
                    "row_differs", f"instance {key} is on {row.instance.host}, the last event says {told}", instance=key
                )
            # labels and zones may have changed since: what binds for ever is the room
            held.append(Held(instance=key, host_id=row.instance.host_id, shape=row.shape, rules_bind=False))
    for key, host in history.placed.items():
        report.add("row_missing", f"the last event placed {key} on {host}, there is no such instance", instance=key)
    for violation in verify([_room(host) for host in hosts], held):
        report.add(
            violation.code, violation.text,
            host=violation.host, instance=violation.instance, dimension=violation.dimension,
        )  # fmt: skip
    return hosts


def _room(host: Host) -> HostRoom:
    return HostRoom(
        id=host.id,
        name=host.name,
        pool=host.spec.pool,
        zone=host.spec.zone,
        dedicated=host.spec.dedicated,
        labels=host.spec.labels,
        allocatable=dict(host.allocatable),
        used=dict(host.used),
        instances=host.instances,
        # the event log judges each placing; a row alone cannot tell overcommit from a host that shrank later
        was_shrunk=host.version > 1,
    )


async def _check_tasks(store: Moment, report: Report, history: _History, progress: Callable[[str, int], None]) -> None:
    async for tasks in store.scan_tasks():
        report.tasks += len(tasks)
        progress("tasks", report.tasks)
        for task in tasks:
            told = history.tasks.pop(task.id_text, None)
            if told is None and not report.whole_history:
                continue
            if told != (task.state, task.version):
                last = f"{told[0].word} at version {told[1]}" if told else "none"
                report.add(
                    "row_differs",
                    f"task {task.id_text} is {task.state.word} at version {task.version}, last event: {last}",
                )
            if task.is_over != (task.ended_ms is not None):
                report.add("end_differs", f"task {task.id_text} is {task.state.word} but ended_ms is {task.ended_ms}")
    for key in history.tasks:
        report.add("row_missing", f"events tell of task {key}, there is no such row")


def _check_hosts(report: Report, history: _History, hosts: list[Host]) -> None:
    rows = {host.name: host for host in hosts}
    for name, told in history.hosts.items():
        host = rows.get(name)
        if (host is None) != (told is None):
            report.add("row_differs", f"host {name}: the last event and the row disagree whether it exists", host=name)
        elif host is not None and told != (host.cordoned, host.version):
            report.add(
                "row_differs", f"host {name} is at version {host.version}, the last event says {told}", host=name
            )
    if report.whole_history:
        for host in hosts:
            used = {name: amount for name, amount in host.used.items() if amount}
            told_used = {name: amount for name, amount in history.used[host.name].items() if amount}
            if used != told_used:
                report.add(
                    "deltas_differ", f"host {host.name} uses {used}, its events add up to {told_used}", host=host.name
                )
