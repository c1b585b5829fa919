"""What must hold after every run, from the database, the event log and what clients were told."""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from virtflow.control.fsck import fsck
from virtflow.control.history.check import check_history
from virtflow.model.event import Event, EventType
from virtflow.model.plan import Request
from virtflow.model.task import Task, TaskState, WhenUnplaceable
from virtflow.store.interned import Interned
from virtflow.store.records import ReadsOfAMoment
from virtflow.store.sqlite_session import InlineSession, connect
from virtflow.store.statements import statements
from virtflow.testing.oracle import PlainFleet
from virtflow.testing.simulation.bus import Bus
from virtflow.testing.simulation.history import Call, History, Outcome
from virtflow.testing.simulation.process import Process

if TYPE_CHECKING:
    from virtflow.model.host import Host
    from virtflow.model.instance import Instance
    from virtflow.store.contract import Removed


class Evidence:
    """Everything the database holds, read past all simulated ways."""

    def __init__(self, file: Path, *, answered_s: Mapping[tuple[str, str], float]) -> None:
        self._connection = connect(file, reading=True)
        self._reads = ReadsOfAMoment(InlineSession(self._connection, statements("sqlite")), Interned())
        self.instances: dict[str, Instance] = {}
        self.shapes: dict[str, Removed] = {}
        self.tasks: dict[str, Task] = {}
        self.hosts: list[Host] = []
        self.events: list[Event] = []
        #: who was answered, to which Idempotency-Key, when
        self.answered_s = answered_s

    async def read(self) -> None:
        async for rows in self._reads.scan_instances():
            self.instances.update((row.instance.id_text, row.instance) for row in rows)
            self.shapes.update((row.instance.id_text, row) for row in rows)
        async for tasks in self._reads.scan_tasks():
            self.tasks.update((task.id_text, task) for task in tasks)
        async for hosts in self._reads.all_hosts():
            self.hosts += hosts
        async for events in self._reads.scan_events():
            self.events += events
        self.pools = await self._reads.pools()

    async def newest_event(self) -> int:
        return (await self._reads.event_range())[1]

    async def violations(self) -> list[str]:
        report = await fsck(_OneMoment(self._reads))  # type: ignore[arg-type]  # of a store, it asks for a moment only
        past = await check_history(_OneMoment(self._reads))  # type: ignore[arg-type]
        verdicts = [verdict for verdict in past.verdicts() if verdict.id not in _BY_THE_WALL]
        return [f"{one.code}: {one.text}" for one in report.violations] + [
            f"{verdict.id}: {one.text}" for verdict in verdicts for one in verdict.first
        ]

    def close(self) -> None:
        self._connection.close()


class _OneMoment:
    def __init__(self, reads: ReadsOfAMoment) -> None:
        self.moment = reads.moment


#: told by the times in the log, which clocks wrote that were wrong; `_waiting` tells it by one that is right
_BY_THE_WALL = frozenset({"I20"})
#: what a client hears whose names or keys somebody took
_TAKEN = frozenset({"already_exists", "idempotency_key_in_use"})

# ── what clients were told ────────────────────────────────────────────────────────────────────────


def judge_history(history: History, evidence: Evidence) -> list[str]:
    return [
        *_orders(history, evidence),
        *_deletions(history, evidence),
        *_reads(history, evidence),
        *_gangs(evidence),
        *_fences(evidence),
    ]


def _orders(history: History, evidence: Evidence) -> list[str]:
    wrong: list[str] = []
    deleted = {call.result for call in history.of("delete") if call.result}
    ended = {call.about for call in history.of("cancel")}
    names: dict[str, list[str]] = defaultdict(list)
    for task in evidence.tasks.values():
        if task.given_name:
            names[task.given_name].append(task.id_text)
    for call in history.of("order"):
        if call.outcome is Outcome.REFUSED and call.code in _TAKEN and _was_answered(call, evidence):
            wrong.append(f"refused ({call.code}) although its key was answered: {call.about}")
        if call.outcome is Outcome.DONE:
            for vm in call.result:
                wrong += _acknowledged(call, vm["id"], evidence, is_gone=vm["id"] in deleted | ended)
        elif call.outcome is Outcome.REFUSED and call.tries == 1:
            for vm in call.result:
                if vm["name"].startswith(call.client) and names.get(vm["name"]):
                    wrong.append(f"refused but there: {vm['name']} ({call.code})")
        for vm in call.result:
            if vm["name"].startswith(call.client) and len(names.get(vm["name"], ())) > 1:
                wrong.append(f"ordered once, there {len(names[vm['name']])} times: {vm['name']}")
    return wrong


def _was_answered(call: Call, evidence: Evidence) -> bool:
    """Before it was sent for the last time: an older try may still succeed after another was refused."""
    return evidence.answered_s.get((call.client, call.about), math.inf) < call.sent_s


def _acknowledged(call: Call, key: str, evidence: Evidence, *, is_gone: bool) -> list[str]:
    task = evidence.tasks.get(key)
    if task is None:
        return [f"acknowledged and lost: task {key} of {call.about}"]
    is_there = key in evidence.instances
    if not is_gone and is_there != (task.state.word in {"queued", "processing", "completed"}):
        return [f"task {key} is {task.state.word}, but its VM is {'there' if is_there else 'lost'}"]
    return []


def _deletions(history: History, evidence: Evidence) -> list[str]:
    wrong = [
        f"deleted and there: {call.about} ({call.result})"
        for call in history.of("delete", Outcome.DONE)
        if call.result in evidence.instances
    ]
    for call in history.of("cancel", Outcome.DONE):
        task = evidence.tasks.get(call.about)
        if task is None or task.state.word != "cancelled" or call.about in evidence.instances:
            wrong.append(f"cancelled, but its task is {task.state.word if task else 'lost'}: {call.about}")
    return wrong


def _reads(history: History, evidence: Evidence) -> list[str]:
    """What was read after another read ended is not older, and a host once told does not change."""
    wrong: list[str] = []
    deleted = {call.result for call in history.of("delete")} | {call.about for call in history.of("cancel")}
    seen: dict[str, list[tuple[float, int, str | None]]] = defaultdict(list)
    for call in sorted(history.of("read"), key=lambda call: call.asked_s):
        task = evidence.tasks.get(call.about)
        if call.outcome is Outcome.REFUSED and call.about not in deleted and not (task and task.state.word == "failed"):
            known = [c for c in history.of("order", Outcome.DONE) if any(vm["id"] == call.about for vm in c.result)]
            if known:
                wrong.append(f"acknowledged, then not found: {call.about} ({call.code})")
        if call.outcome is not Outcome.DONE:
            continue
        version, host, _ = call.result
        for ended_s, older, told in seen[call.about]:
            if ended_s < call.asked_s and (version < older or (told is not None and host != told)):
                wrong.append(f"read backwards: {call.about} from version {older} on {told} to {version} on {host}")
        seen[call.about].append((call.answered_s, version, host))
    return wrong


def _gangs(evidence: Evidence) -> list[str]:
    """Placed together or not at all: unless somebody took one away, all are in the same state."""
    members: dict[bytes, list[Task]] = defaultdict(list)
    for task in evidence.tasks.values():
        if task.gang is not None:
            members[task.gang].append(task)
    return [
        f"all-or-nothing, and torn: {', '.join(f'{task.id_text} {task.state.word}' for task in gang)}"
        for gang in members.values()
        if len({task.state for task in gang} - {TaskState.CANCELLED}) > 1
    ]


def _fences(evidence: Evidence) -> list[str]:
    wrong, newest = [], 0
    for event in evidence.events:
        if event.type is EventType.TASK_COMPLETED:  # a deletion tells the fence of the placing
            if event.fence < newest:
                wrong.append(f"event {event.seq} was written under fence {event.fence} after {newest}")
            newest = max(newest, event.fence)
    return wrong


def judge_bus(bus: Bus, evidence: Evidence) -> list[str]:
    """Every event arrived, in order but for doubles, as it is in the log; and nothing else did."""
    log = {event.seq: (event.seq, f"{event.kind}/{event.id}", f"virtflow.{event.type}") for event in evidence.events}
    first = list(dict.fromkeys(bus.arrived))
    wrong = [f"the bus was never told of event {number}" for number in log.keys() - {one[0] for one in first}]
    wrong += [f"the bus was told what never happened: {one}" for one in first if log.get(one[0]) != one]
    numbers = [one[0] for one in first]
    wrong += [f"the bus heard of event {b} after {a}" for a, b in itertools.pairwise(numbers) if b < a]
    return wrong


# ── when all is well again ────────────────────────────────────────────────────────────────────────


def not_settled(processes: Sequence[Process], evidence: Evidence, bus: Bus, *, newest: int, now_ms: int) -> list[str]:
    """What is still missing for peace: one leader, nobody waits who fits, every mirror shows what the ledger says."""
    wrong = []
    leaders = [process.name for process in processes if process.is_leading]
    if len(leaders) != 1:
        wrong.append(f"{len(leaders)} leaders")
    wrong += _waiting(evidence, now_ms)
    told = max((number for number, _, _ in bus.arrived), default=0)
    if told < newest:
        wrong.append(f"the bus was told up to event {told} of {newest}")
    for process in processes:
        wrong += _mirror(process, evidence, newest)
    return wrong


def _waiting(evidence: Evidence, now_ms: int) -> list[str]:
    """Times written by a clock that was ahead are kept: such a task waits until then."""
    open_tasks = [task for task in evidence.tasks.values() if not task.is_over]
    wrong = []
    for task in open_tasks:
        if task.when_unplaceable is WhenUnplaceable.FAIL and task.next_try_ms <= now_ms:
            wrong.append(f"task {task.id_text} should have been tried again, or ended")
        if task.deadline_ms is not None and task.deadline_ms <= now_ms:
            wrong.append(f"task {task.id_text} outlived its deadline")
    gangs: dict[bytes, list[Task]] = defaultdict(list)
    for task in open_tasks:
        gangs[task.gang or task.id].append(task)
    for members in gangs.values():
        fleet = PlainFleet(evidence.hosts, evidence.pools)
        shapes = [evidence.shapes[task.id_text].shape for task in members if task.id_text in evidence.shapes]
        if shapes and all(fleet.place(Request(task.id, one)) for task, one in zip(members, shapes, strict=False)):
            wrong.append(f"task {members[0].id_text} waits although it fits")
    return wrong


def _mirror(process: Process, evidence: Evidence, newest: int) -> list[str]:
    service = process.service
    if service is None or process.house is None:
        return [f"{process.name} does not serve"]
    mirror = service.scheduler._mirror
    wrong = []
    for host in evidence.hosts:
        if host.name not in mirror.fleet:
            wrong.append(f"{process.name} knows nothing of host {host.name}")
            continue
        room = mirror.fleet.room(host.name)
        known = mirror.fleet.host(host.name)
        used, shown = _there(host.used), _there(room[0] if room else {})
        if used != shown or (room and room[1] != host.instances):
            wrong.append(f"{process.name} thinks that {host.name} uses {shown}, the ledger says {used}")
        limits = _there(host.allocatable)
        if (known.schedulable, _there(known.allocatable)) != (not host.cordoned, limits):
            wrong.append(f"{process.name} knows an older {host.name}")
    extra = sorted(set(mirror.fleet.names) - {host.name for host in evidence.hosts})
    wrong += [f"{process.name} still knows host {name}" for name in extra]
    if mirror.position > newest:
        wrong.append(f"{process.name} follows event {mirror.position} of {newest}")
    return wrong


def _there(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}
