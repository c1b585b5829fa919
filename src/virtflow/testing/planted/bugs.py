"""The bugs: each guard of the walk taken away, what other systems did wrong, and what was wrong here once."""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec

from virtflow.control import buses, commit, follow, schedule, turns
from virtflow.control.commit import Committer, Outcome, Round
from virtflow.control.inbox import Inbox
from virtflow.control.mirror import Mirror
from virtflow.control.schedule import Scheduler
from virtflow.control.submission import Submission
from virtflow.control.waiting import Waiting
from virtflow.election import candidate, judge
from virtflow.engine.fleet import Fleet
from virtflow.main import service
from virtflow.model.errors import Fenced
from virtflow.model.event import Event
from virtflow.model.task import Task, WhenUnplaceable
from virtflow.model.views import VmView
from virtflow.store import hosts as host_rows
from virtflow.store import sqlite
from virtflow.store.contract import Changes
from virtflow.store.events import EventReads
from virtflow.store.records import Writes
from virtflow.testing.planted import guards
from virtflow.testing.planted.bug import Bug, Plant, all_of, no_call, nothing, replaced, said, without
from virtflow.testing.simulation.store import SimulatedStore

_FENCE = "fence check"


def _after(owner: Any, name: str, then: Any) -> Plant:
    """The method is called, and `then` with the same arguments after it."""
    real = getattr(owner, name)

    async def both(*arguments: Any, **named: Any) -> Any:
        result = await real(*arguments, **named)
        then(*arguments)
        return result

    return lambda: replaced(owner, name, both)


# ── the write ─────────────────────────────────────────────────────────────────────────────────────


def _fence_read_and_let_go() -> contextlib.AbstractContextManager[None]:
    return said("fence", without(" FOR SHARE"), dialects=("postgresql",))


def _stale_copy() -> contextlib.AbstractContextManager[None]:
    """The row is read again in the transaction, but the copy from before is tested, and written back whole."""
    return all_of(guards.state_guard, guards.bind_guard)


def _room_given_twice() -> contextlib.AbstractContextManager[None]:
    real = Writes.remove_instances

    async def twice(self: Writes, ids: Sequence[bytes], *, at_ms: int) -> Any:
        removed = await real(self, ids, at_ms=at_ms)
        return removed + removed[:1]

    return replaced(Writes, "remove_instances", twice)


def _deleted_row_not_held() -> contextlib.AbstractContextManager[None]:
    return said("instances_by_id", without(" FOR UPDATE"), dialects=("postgresql",))


def _events_after_the_commit() -> contextlib.AbstractContextManager[None]:
    real = Committer._write

    async def write(self: Committer, decided: Round, known: Mirror) -> None:
        silent = copy.copy(self)
        silent._events = lambda _: []  # type: ignore[method-assign, assignment]
        await real(silent, decided, known)
        events = self._events(decided)
        if events:
            async with self._store.transaction() as tx:
                await tx.append_events(events)

    return replaced(Committer, "_write", write)


def _gang_torn() -> contextlib.AbstractContextManager[None]:
    real = commit._hold_back

    def hold_back(decided: Round, outcome: Outcome, host_ids: frozenset[int]) -> None:
        gangs = {task.id: task.gang for task, _ in decided.placed}
        for task, _ in decided.placed:
            task.gang = None
        kept = list(decided.placed)
        real(decided, outcome, host_ids)
        for task, _ in kept:
            task.gang = gangs[task.id]

    return replaced(commit, "_hold_back", hold_back)


# ── answers ───────────────────────────────────────────────────────────────────────────────────────


def _always(value: bool) -> Any:
    async def said_so(*_: Any) -> bool:
        return value

    return said_so


def _unknown_means_failed() -> contextlib.AbstractContextManager[None]:
    return replaced(Committer, "_was_written", _always(False))


def _unknown_means_done() -> contextlib.AbstractContextManager[None]:
    return replaced(Committer, "_was_written", _always(True))


def _answered_before_the_commit() -> contextlib.AbstractContextManager[None]:
    def settle(_self: Committer, _tx: Any, decided: Round, *_: Any) -> None:
        for submission in decided.submissions:
            submission.settle()

    return _after(Committer, "_add_new", settle)()


def _queue_in_memory() -> contextlib.AbstractContextManager[None]:
    """The task id is answered when the task lies in the process's memory."""
    real = Inbox.put

    def put(self: Inbox, submission: Submission, **named: Any) -> None:
        real(self, submission, **named)
        submission.views = [
            VmView(instance=commit._waiting_instance(task, 0), shape=task.shape, task_id=task.id)
            for task in submission.tasks
        ]
        submission.settle()

    return replaced(Inbox, "put", put)


def _fenced_means_done() -> contextlib.AbstractContextManager[None]:
    real = Committer.commit

    async def obey_nobody(self: Committer, decided: Round, known: Mirror) -> Outcome:
        try:
            return await real(self, decided, known)
        except Fenced:
            outcome = Outcome()
            self._conclude(decided, outcome)
            return outcome

    return replaced(Committer, "commit", obey_nobody)


# ── leaders ───────────────────────────────────────────────────────────────────────────────────────


def _lease_kept_too_long() -> contextlib.AbstractContextManager[None]:
    return replaced(judge, "KEPT", 4.0)


def _hint_as_proof() -> contextlib.AbstractContextManager[None]:
    def is_gone(_self: Any, vote: Any, _now_s: float) -> bool:
        return not vote.is_attended

    return all_of(
        lambda: replaced(judge.Judge, "_is_gone", is_gone),
        # and the holder does not care that others may see him as dead
        lambda: replaced(candidate, "next_beat_s", judge.next_beat_s),
        lambda: replaced(candidate._KeptTerm, "is_valid", lambda self: not self._over.is_set() and self._left_s() > 0),
    )


def _office_taken_without_a_look() -> contextlib.AbstractContextManager[None]:
    return said("take_lease", without(" AND lease.holder = $3 AND lease.fence = $4 AND lease.beat = $5"))


def _term_for_ever() -> contextlib.AbstractContextManager[None]:
    return replaced(candidate._KeptTerm, "is_valid", lambda self: not self._over.is_set())


def _lead_without_looking_around() -> contextlib.AbstractContextManager[None]:
    """What waited before is not read."""

    async def nobody(_self: Any) -> AsyncIterator[list[Task]]:
        for none in list[list[Task]]():
            yield none

    return replaced(SimulatedStore, "open_tasks", nobody)


def _deadline_forgotten() -> contextlib.AbstractContextManager[None]:
    real = Waiting.from_task.__func__  # type: ignore[attr-defined]

    def from_task(cls: Any, task: Task, shape: Any, *, name: str | None) -> Waiting:
        waiting: Waiting = real(cls, task, shape, name=name)
        waiting.deadline_ms = None
        if waiting.when_unplaceable is WhenUnplaceable.FAIL:
            waiting.next_try_ms = 0
        return waiting

    return replaced(Waiting, "from_task", classmethod(from_task))


# ── memory ────────────────────────────────────────────────────────────────────────────────────────


def _total_instead_of_free() -> contextlib.AbstractContextManager[None]:
    """Decisions see what a host has, not what is left of it."""

    def take(_self: Fleet, _host_id: int, _shape: Any) -> bool:
        return True

    real = Mirror._with_known_room

    def with_all(self: Mirror, host: Any) -> Any:
        return msgspec.structs.replace(real(self, host), used={}, instances=0)

    return all_of(
        lambda: replaced(Fleet, "take", take),
        lambda: replaced(Fleet, "change_room", lambda *_: True),
        lambda: replaced(Mirror, "_with_known_room", with_all),
    )


def _log_skipped() -> contextlib.AbstractContextManager[None]:
    """A follower that was interrupted goes on behind what it had not applied."""
    real = EventReads.changes

    async def changes(self: EventReads, *, after: int, limit: int = 2) -> Changes:
        found = await real(self, after=after, limit=2)
        _, newest = await self.event_range()
        return Changes(found.events, newest if found.events else found.upto)

    return replaced(EventReads, "changes", changes)


def _own_rows_read_again() -> contextlib.AbstractContextManager[None]:
    return said("events_of_others", lambda sql: sql.replace("origin <> $3", "origin <> $3 || 'x'"))


def _news_believed() -> contextlib.AbstractContextManager[None]:
    """Nobody looks unless told; and who was told nothing has missed nothing."""
    return replaced(follow, "POLL_S", 1e6)


def _position_read_too_late() -> contextlib.AbstractContextManager[None]:
    real = Mirror._load

    async def load(self: Mirror, store: Any) -> None:
        await real(self, store)
        _, self.position = await store.event_range()

    return replaced(Mirror, "_load", load)


def _no_doubt() -> contextlib.AbstractContextManager[None]:
    return replaced(Scheduler, "doubt", no_call)


def _no_turns() -> contextlib.AbstractContextManager[None]:
    @contextlib.asynccontextmanager
    async def at_once(_self: Any) -> AsyncIterator[None]:
        yield

    return all_of(lambda: replaced(turns.Turns, "writing", at_once), lambda: replaced(turns.Turns, "reading", at_once))


def _late_telling_counts() -> contextlib.AbstractContextManager[None]:
    real = Mirror._put

    def put(self: Mirror, some: Iterable[Any]) -> None:
        self._versions.clear()
        real(self, some)

    return replaced(Mirror, "_put", put)


def _unheard_host_believed() -> contextlib.AbstractContextManager[None]:
    def put_hosts(self: Mirror, some: Iterable[Any], **_: Any) -> bool:
        self._put(some)
        return True

    return replaced(Mirror, "put_hosts", put_hosts)


def _half_of_the_slots() -> contextlib.AbstractContextManager[None]:
    @contextlib.asynccontextmanager
    async def hold_still(self: Scheduler) -> AsyncIterator[None]:
        for _ in range(schedule.ROUNDS_IN_FLIGHT_MAX):
            await self._slots.acquire()
        try:
            yield
        finally:
            for _ in range(schedule.ROUNDS_IN_FLIGHT_MAX):
                self._slots.release()

    return replaced(Scheduler, "hold_still", hold_still)


def _alarm_lost() -> contextlib.AbstractContextManager[None]:
    def give_up(self: Scheduler, decided: Round, error: Exception) -> None:
        self._undo(decided.placed)
        self._must_reload = True
        self._fail(decided.submissions, error)
        self.knock()

    return replaced(Scheduler, "_give_up", give_up)


def _told_to_stop_and_forgot() -> contextlib.AbstractContextManager[None]:
    async def end(task: asyncio.Task[Any]) -> None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    return replaced(service, "end", end)


def _room_kept_after_a_failure() -> contextlib.AbstractContextManager[None]:
    """A round that was not written keeps its room in memory, and nothing is read anew."""
    real = Scheduler._give_up

    def give_up(self: Scheduler, decided: Round, error: Exception) -> None:
        with replaced(Scheduler, "_undo", no_call):
            real(self, decided, error)
        self._must_reload = False

    return replaced(Scheduler, "_give_up", give_up)


# ── outlets ───────────────────────────────────────────────────────────────────────────────────────


def _cursor_before_the_bus() -> contextlib.AbstractContextManager[None]:
    real = buses.BusCourier._tell

    async def tell(self: Any, outlet: Any, events: Sequence[Event]) -> None:
        await self._move(outlet, events)
        with replaced(self, "_move", nothing):
            await real(self, outlet, events)

    return replaced(buses.BusCourier, "_tell", tell)


def _bus_out_of_order() -> contextlib.AbstractContextManager[None]:
    real = buses.BusCourier._read_after

    async def read(self: Any, cursor: int) -> Sequence[Event]:
        events = await real(self, cursor)
        return [*events[1::2], *events[::2]] if len(events) > 2 else events

    return replaced(buses.BusCourier, "_read_after", read)


def _cursor_without_a_look() -> contextlib.AbstractContextManager[None]:
    """A relay whose time is over moves the cursor back, or on, whatever another did meanwhile."""
    return said("move_outlet", lambda sql: sql.replace("cursor = $3", "$3 = $3"))


def _part_means_all() -> contextlib.AbstractContextManager[None]:
    real = buses.BusCourier._move

    async def move(self: Any, outlet: Any, told: Sequence[Event]) -> None:
        _, newest = await self._store.event_range()
        await real(self, outlet, [msgspec.structs.replace(told[-1], seq=newest)])

    return replaced(buses.BusCourier, "_move", move)


# ── beyond the simulation ─────────────────────────────────────────────────────────────────────────


def _disk_not_waited_for() -> contextlib.AbstractContextManager[None]:
    real = sqlite._become_durable

    def become_fast(connection: Any) -> None:
        real(connection)
        connection.pragma("synchronous", "normal")

    return replaced(sqlite, "_become_durable", become_fast)


def _versions_not_compared() -> contextlib.AbstractContextManager[None]:
    return replaced(host_rows, "_check_version", no_call)


BUGS: Sequence[Bug] = (
    # the write
    Bug(
        name="no fence check",
        text="a leader whose time is over goes on writing",
        plant=guards.fence_check,
        hidden_by=("state guard", "bind guard"),
    ),
    Bug(
        name="fence read and let go",
        text="the fence is looked at, and may be raised before the commit",
        plant=_fence_read_and_let_go,
    ),
    Bug(
        name="no room guard",
        text="the write takes room without asking whether there is any",
        plant=guards.room_guard,
        hidden_by=("checks of the tables",),
    ),
    Bug(
        name="total instead of free",
        text="decisions see what a host has, not what is left of it",
        plant=_total_instead_of_free,
        hidden_by=("room guard", "checks of the tables"),
        was_in="virtflow in Python (13, 19)",
    ),
    Bug(
        name="no state guard",
        text="a task is moved whatever state it is in by now",
        plant=guards.state_guard,
        hidden_by=("bind guard", _FENCE),
    ),
    Bug(
        name="no bind guard",
        text="a VM that has a host gets another one",
        plant=guards.bind_guard,
        hidden_by=("state guard", _FENCE),
    ),
    Bug(
        name="stale copy",
        text="the row is read again in the transaction, but the older copy is tested and written back",
        plant=_stale_copy,
        hidden_by=(_FENCE,),
        was_in="Orchard (26)",
    ),
    Bug(
        name="room given twice",
        text="a deletion gives the room of its VM back twice",
        plant=_room_given_twice,
        hidden_by=("checks of the tables",),
    ),
    Bug(
        name="deleted row not held",
        text="two deletions of one VM both find it, and both give its room back",
        plant=_deleted_row_not_held,
        hidden_by=("checks of the tables",),
    ),
    Bug(
        name="events after the commit",
        text="what happened is told in a transaction of its own",
        plant=_events_after_the_commit,
    ),
    Bug(name="gang torn", text="of an all-or-nothing request some are held back", plant=_gang_torn),
    # answers
    Bug(
        name="unknown means failed",
        text="a commit whose answer was lost is taken for failed",
        plant=_unknown_means_failed,
        was_in="jetcd",
    ),
    Bug(
        name="unknown means done",
        text="a commit whose answer was lost is taken for done",
        plant=_unknown_means_done,
    ),
    Bug(
        name="answered before the commit",
        text="the caller is told before it is true",
        plant=_answered_before_the_commit,
    ),
    Bug(
        name="queue in memory",
        text="an accepted task lies in the memory of a process",
        plant=_queue_in_memory,
        was_in="virtflow in Python (20)",
    ),
    Bug(
        name="fenced means done",
        text="a leader who was deposed tells its callers that all is well",
        plant=_fenced_means_done,
    ),
    Bug(
        name="no recall",
        text="nobody looks up what a key was answered",
        plant=guards.recall,
        hidden_by=("key guard",),
    ),
    Bug(
        name="no key guard",
        text="a second answer to a key covers the first",
        plant=guards.key_guard,
        hidden_by=("recall",),
    ),
    # leaders
    Bug(
        name="lease kept too long",
        text="the holder believes in its office for four leases",
        plant=_lease_kept_too_long,
        hidden_by=(_FENCE,),
    ),
    Bug(
        name="hint as proof",
        text="who has no session is taken for dead at the first look, and does not care himself",
        plant=_hint_as_proof,
        hidden_by=(_FENCE,),
    ),
    Bug(
        name="office taken without a look",
        text="the office is taken whoever took it meanwhile",
        plant=_office_taken_without_a_look,
        hidden_by=(_FENCE,),
    ),
    Bug(
        name="term for ever",
        text="a holder who was stopped decides on when he wakes up",
        plant=_term_for_ever,
        hidden_by=(_FENCE,),
    ),
    Bug(
        name="lead without looking around",
        text="a new leader does not read what waited before",
        plant=_lead_without_looking_around,
    ),
    Bug(
        name="deadline forgotten",
        text="a new leader knows the task, and not until when it may wait",
        plant=_deadline_forgotten,
    ),
    # memory
    Bug(name="log skipped", text="a follower goes on behind what it did not apply", plant=_log_skipped),
    Bug(
        name="own rows read again", text="a process applies what it wrote itself once more", plant=_own_rows_read_again
    ),
    Bug(name="news believed", text="nobody looks unless told, and tellings are lost", plant=_news_believed),
    Bug(
        name="position read too late",
        text="the mirror is loaded, and what came meanwhile is taken for known",
        plant=_position_read_too_late,
    ),
    Bug(
        name="room kept after a failure",
        text="what a round took that was not written is never given back in memory",
        plant=_room_kept_after_a_failure,
    ),
    Bug(name="no doubt", text="a write of unknown outcome is forgotten", plant=_no_doubt, was_in="here"),
    Bug(
        name="no turns",
        text="the mirror is read anew while something of ours is written",
        plant=_no_turns,
        was_in="here",
    ),
    Bug(
        name="late telling counts",
        text="an older state of a host, told late, covers the newer",
        plant=_late_telling_counts,
        was_in="here",
        found_by="tests/control/test_mirror.py::test_what_is_told_late_does_not_cover_what_is_newer",
    ),
    Bug(
        name="unheard host believed",
        text="the row of a host that the log has not told of is believed, and then the log, too",
        plant=_unheard_host_believed,
        was_in="here",
    ),
    Bug(name="half of the slots", text="two who want all slots wait for ever", plant=_half_of_the_slots, was_in="here"),
    Bug(name="alarm lost", text="a round that was not written forgets who was due", plant=_alarm_lost, was_in="here"),
    Bug(
        name="told to stop and forgot",
        text="who is told to stop while he ends another goes on",
        plant=_told_to_stop_and_forgot,
        was_in="here",
    ),
    # outlets
    Bug(
        name="cursor before the bus",
        text="the cursor is moved, and then the bus is told",
        plant=_cursor_before_the_bus,
    ),
    Bug(name="bus out of order", text="events are sent in another order than they happened", plant=_bus_out_of_order),
    Bug(name="part means all", text="a bus that took a part is taken to have taken all", plant=_part_means_all),
    Bug(
        name="cursor without a look",
        text="a relay whose time is over moves the cursor all the same",
        plant=_cursor_without_a_look,
        found_by="tests/store/contract/test_outlets.py::test_outlets_move_from_where_they_are",
    ),
    # beyond the simulation
    Bug(
        name="disk not waited for",
        text="SQLite does not sync at a commit",
        plant=_disk_not_waited_for,
        found_by="tests/store/test_sqlite.py::test_a_failed_sync_is_unknown_and_never_tried_again",
    ),
    Bug(
        name="versions not compared",
        text="a change of an older version of a host is taken",
        plant=_versions_not_compared,
        found_by="tests/store/contract/test_hosts.py::test_a_change_of_an_older_version_is_refused",
    ),
)
