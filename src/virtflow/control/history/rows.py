"""Rows beside each other, and beside their last events: I1, I2, I7, I10, I14, I19, I20."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from virtflow.control.history.keys import KeyBook, Keys, places_of
from virtflow.control.history.moves import STATES, Told
from virtflow.control.history.report import SHOWN_MAX, Report
from virtflow.control.history.room import Amounts
from virtflow.control.history.tables import NONE, Numbers, Tables

QUEUED, COMPLETED, FAILED, CANCELLED = 0, 2, 3, 4
FAILS, WAITS = 0, 1
#: so long after its deadline somebody must have ended a task
DEADLINE_GRACE_MS = 60_000

#: a host of which the log does not know
_UNHEARD = -2

Marks = NDArray[np.bool_]


class Rows:
    """Says of marked rows what is wrong with them."""

    def __init__(self, tables: Tables, report: Report, book: KeyBook) -> None:
        self.tables = tables
        self.report = report
        self.book = book

    def tell(self, invariant: str, wrong: Marks, keys: Keys, text: Callable[[str, int], str]) -> None:
        found = np.flatnonzero(wrong)
        first = [(text(self.book.text(keys[place]), int(place)), 0) for place in found[:SHOWN_MAX]]
        self.report.add_all(invariant, len(found), first)

    # ── the ledger ────────────────────────────────────────────────────────────────────────────────

    def check_ledger(self) -> None:
        held, carried = self._held()
        for host_id, room in self.tables.rooms.items():
            name = self.tables.host_names.get(host_id, f"number {host_id}")
            for dimension in {*room.used, *held[host_id]}:
                used, limit = room.used.get(dimension, 0), room.limit.get(dimension, 0)
                if used < 0 or (used > limit and not room.is_shrunk):
                    self.report.add("I1", f"host {name} gave {used} {dimension}, it has {limit}", id=name)
                if used != held[host_id][dimension]:
                    told = f"host {name} gave {used} {dimension}, its VMs hold {held[host_id][dimension]}"
                    self.report.add("I2", told, id=name)
            if room.instances != carried[host_id]:
                told = f"host {name} counts {room.instances} VMs, {carried[host_id]} are there"
                self.report.add("I2", told, id=name)

    def _held(self) -> tuple[Mapping[int, Amounts], Mapping[int, int]]:
        """What the VMs of each host hold, and how many they are."""
        vms, shapes = self.tables.vms, self.tables.shapes
        held: dict[int, Amounts] = defaultdict(lambda: defaultdict(int))
        carried: dict[int, int] = defaultdict(int)
        placed = vms.host != NONE
        pairs, counts = np.unique(np.stack([vms.host[placed], vms.shape[placed]]), axis=1, return_counts=True)
        for host_id, shape_id, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            carried[host_id] += count
            for dimension, amount in shapes.get(shape_id, {}).items():
                held[host_id][dimension] += amount * count
        return held, carried

    def check_sums(self, told: Mapping[str, Amounts]) -> None:
        """Each host's events add up to what its line of the ledger says."""
        for name, host in self.tables.hosts.items():
            room = self.tables.rooms.get(host.id)
            used = {d: amount for d, amount in room.used.items() if amount} if room else {}
            sums = {d: amount for d, amount in told.get(name, {}).items() if amount}
            if used != sums:
                self.report.add("I2", f"host {name} gave {used}, its events add up to {sums}", id=name)

    # ── tasks and VMs beside each other ───────────────────────────────────────────────────────────

    def check_each_other(self) -> None:
        tables = self.tables
        tasks, vms = tables.tasks, tables.vms
        self.tell("I7", _repeated(vms.keys), vms.keys, lambda vm, _: f"there are two rows of VM {vm}")
        self.tell("I7", self._with_a_name_twice(), vms.keys, lambda vm, _: f"VM {vm} bears the name of another one")
        is_gone = places_of(vms.keys, tables.gone)[1]
        self.tell("I7", is_gone, vms.keys, lambda vm, _: f"VM {vm} is there and deleted")
        self.tell("I7", _repeated(tasks.keys), tasks.keys, lambda task, _: f"there are two rows of task {task}")
        self._check_orphans()
        ended = (tasks.state == COMPLETED) | (tasks.state == FAILED) | (tasks.state == CANCELLED)
        self.tell(
            "I10", ended != (tasks.ended_ms != NONE), tasks.keys,
            lambda task, place: f"task {task} is {_word(tasks.state[place])}, its end {_time(tasks.ended_ms[place])}",
        )  # fmt: skip

    def _with_a_name_twice(self) -> Marks:
        names: Any = self.tables.vms.names
        order = np.argsort(names, kind="stable")
        twice = np.zeros(len(names), np.bool_)
        twice[order] = _repeated(names[order])
        twice[names == b""] = False
        return twice

    def _check_orphans(self) -> None:
        tables = self.tables
        tasks, vms = tables.tasks, tables.vms
        places, has_task = places_of(vms.keys, tasks.keys)
        self.tell("I19", ~has_task, vms.keys, lambda vm, _: f"VM {vm} has no task")
        rooms = np.array(sorted(tables.rooms), np.int64)
        homeless = (vms.host != NONE) & ~np.isin(vms.host, rooms)
        self.tell(
            "I19", homeless, vms.keys, lambda vm, place: f"VM {vm} is on host {vms.host[place]}, which is not there"
        )
        state = tasks.state[places] if len(tasks.keys) else vms.host
        over = has_task & np.isin(state, (FAILED, CANCELLED))
        self.tell("I19", over, vms.keys, lambda vm, place: f"VM {vm} is there, its task is {_word(state[place])}")
        task_host = tasks.host[places] if len(tasks.keys) else vms.host
        elsewhere = has_task & (state == COMPLETED) & (task_host != vms.host)
        elsewhere |= has_task & (state == QUEUED) & (vms.host != NONE)
        self.tell(
            "I10", elsewhere & ~homeless, vms.keys,
            lambda vm, place: f"VM {vm} is on {self._host(vms.host[place])}, its task says "
            f"{_word(state[place])} on {self._host(task_host[place])}",
        )  # fmt: skip
        is_there, is_gone = places_of(tasks.keys, vms.keys)[1], places_of(tasks.keys, tables.gone)[1]
        lost = ~is_there & ((tasks.state == QUEUED) | ((tasks.state == COMPLETED) & ~is_gone))
        self.tell("I19", lost, tasks.keys, lambda task, place: f"task {task} is {_word(tasks.state[place])}, no VM")

    def _host(self, host_id: int) -> str:
        return "no host" if host_id == NONE else self.tables.host_names.get(int(host_id), f"host {host_id}")

    # ── bounds ────────────────────────────────────────────────────────────────────────────────────

    def check_bounds(self, *, tries_max: int, now_ms: int) -> None:
        tasks = self.tables.tasks
        often = (tasks.when_unplaceable == FAILS) & (tasks.attempt > tries_max)
        self.tell(
            "I20", often, tasks.keys,
            lambda task, place: f"task {task} was tried {tasks.attempt[place]} times, {tries_max} are allowed",
        )  # fmt: skip
        waits = (tasks.state == QUEUED) & (tasks.deadline_ms != NONE)
        late = waits & (tasks.deadline_ms + DEADLINE_GRACE_MS < now_ms)
        self.tell(
            "I20", late, tasks.keys,
            lambda task, place: f"task {task} waits {(now_ms - tasks.deadline_ms[place]) // 1000} s past its deadline",
        )  # fmt: skip
        newest = self.tables.counters.get("fence", 0)
        vms = self.tables.vms
        self.tell(
            "I14", vms.fence > newest, vms.keys,
            lambda vm, place: f"VM {vm} was placed under fence {vms.fence[place]}, the newest is {newest}",
        )  # fmt: skip

    def check_rest(self) -> None:
        """When nobody is at work, only those still wait that may wait."""
        tasks = self.tables.tasks
        undecided = (tasks.state == QUEUED) & (tasks.when_unplaceable != WAITS)
        self.tell("I3", undecided, tasks.keys, lambda task, _: f"task {task} has not ended")
        newest = self.tables.counters.get("event", 0)
        for name, (cursor, is_on) in self.tables.outlets.items():
            if is_on and cursor < newest:
                self.report.add("I11", f"outlet {name} was told up to event {cursor} of {newest}", id=name)

    def check_outlets(self) -> None:
        newest = self.tables.counters.get("event", 0)
        for name, (cursor, _) in self.tables.outlets.items():
            if cursor > newest:
                self.report.add("I12", f"outlet {name} was told up to event {cursor}, the last is {newest}", id=name)

    # ── beside the log ────────────────────────────────────────────────────────────────────────────

    def compare(self, told: Told) -> None:
        """Every row is what its last event says. What is broken in the log was told there."""
        self._compare_tasks(told)
        self._compare_vms(told)

    def _compare_tasks(self, told: Told) -> None:
        tasks = self.tables.tasks
        places, known = places_of(tasks.keys, told.keys)
        vms = places_of(tasks.keys, self.tables.vms.keys)[1]
        if self.report.is_whole:
            self.tell("I10", ~known, tasks.keys, lambda task, _: f"task {task} has a row, no event tells of it")
        self.tell(
            "I10",
            ~places_of(told.keys, tasks.keys)[1],
            told.keys,
            lambda task, _: f"task {task} is told of, has no row",
        )
        if not len(told.keys):
            return
        judged = known & ~told.is_broken[places]
        # the log counts "nothing" as a state
        state, version, host = told.state[places] - 1, told.version[places], told.host[places]
        moved = judged & ((tasks.state != state) | (tasks.version != version))
        self.tell(
            "I10", moved, tasks.keys,
            lambda task, place: f"task {task} is {_word(tasks.state[place])} at version {tasks.version[place]}, "
            f"the last event says {_word(state[place])} at version {version[place]}",
        )  # fmt: skip
        elsewhere = judged & ~moved & (state == COMPLETED) & (host != self._host_places(told, tasks.host))
        self.tell(
            "I10", elsewhere, tasks.keys,
            lambda task, place: f"task {task} is on {self._host(tasks.host[place])}, the last event says "
            f"{told.host_names[host[place]] if host[place] >= 0 else 'no host'}",
        )  # fmt: skip
        deleted = judged & told.is_deleted[places]
        self.tell("I10", deleted & vms, tasks.keys, lambda task, _: f"VM {task} has a row, the log says it was deleted")
        unburied = judged & ~told.is_deleted[places] & (state == COMPLETED) & ~vms
        unburied &= places_of(tasks.keys, self.tables.gone)[1]
        self.tell("I10", unburied, tasks.keys, lambda task, _: f"VM {task} is gone, no event says that it was deleted")

    def _host_places(self, told: Told, host_ids: Numbers) -> Numbers:
        """The hosts of rows, by the numbers that the log's hosts have."""
        known = {name: place for place, name in enumerate(told.host_names)}
        ids, inverse = np.unique(host_ids, return_inverse=True)
        names = [self.tables.host_names.get(host_id) for host_id in ids.tolist()]
        places = [known.get(name, _UNHEARD) if name else NONE for name in names]
        return np.array(places, np.int64)[inverse]

    def _compare_vms(self, told: Told) -> None:
        vms = self.tables.vms
        places, known = places_of(vms.keys, told.keys)
        if not len(told.keys):
            return
        late = told.is_late[places] & (told.state[places] - 1 == COMPLETED)
        wrong = known & ~told.is_broken[places] & (vms.version != 1 + late)
        self.tell(
            "I10", wrong, vms.keys,
            lambda vm, place: f"VM {vm} is at version {vms.version[place]}, its events make it {1 + late[place]}",
        )  # fmt: skip


def _repeated(keys: Any) -> Marks:
    """Of sorted keys, those that stand behind an equal one."""
    again = np.zeros(len(keys), np.bool_)
    again[1:] = keys[1:] == keys[:-1]
    return again


def _word(state: int) -> str:
    return STATES[state + 1] if 0 <= state + 1 < len(STATES) else "in a state that nobody knows"


def _time(ms: int) -> str:
    return "is not said" if ms == NONE else f"at {ms}"
