"""Transaction A and B in one: what was accepted and what was decided become true together, or not at all."""

import asyncio
import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import structlog

from virtflow.control.mirror import Mirror
from virtflow.control.submission import Submission
from virtflow.control.waiting import Waiting
from virtflow.model.clock import Clock
from virtflow.model.dead import DeadLetter, letter_of_tasks
from virtflow.model.errors import Conflict, Gone, OutcomeUnknown, Unavailable
from virtflow.model.event import Event, EventType
from virtflow.model.explanation import Explanation
from virtflow.model.instance import Instance
from virtflow.model.limits import COMMIT_TRIES_MAX
from virtflow.model.names import derived_vm_name, id_from_derived_vm_name, id_to_text
from virtflow.model.plan import Placement
from virtflow.model.resources import Resources, plus
from virtflow.model.shape import Shape
from virtflow.model.task import Step, Task, TaskState, check_move
from virtflow.model.views import VmView
from virtflow.model.webhook import Callback, TaskCallback
from virtflow.store.contract import Bind, EventFilter, IdsTaken, NamesTaken, RoomChange, Store, TaskMove, Transaction

log = structlog.get_logger(__name__)

_CURSORS = "round_robin_cursors"
#: whose holder decides
OFFICE = "scheduler"
_RETRY_WAIT_S = 0.05
_ASK_AGAIN = "repeat with the same Idempotency-Key to learn the outcome"
_EVERYTHING = EventFilter()

Placed = tuple[Waiting, Placement]


@dataclasses.dataclass(slots=True, kw_only=True)
class Round:
    """What one turn of the loop decided, before it is true."""

    submissions: list[Submission]
    now_ms: int
    #: the state of the fleet it was decided on
    opening: int
    placed: list[Placed] = dataclasses.field(default_factory=list)
    #: accepted, and waiting from now on; with the time of the next try
    queued: list[tuple[Waiting, int]] = dataclasses.field(default_factory=list)
    retried: list[tuple[Waiting, int]] = dataclasses.field(default_factory=list)
    #: with a code that overrides the explanation's, where there is one
    failed: list[tuple[Waiting, str, Explanation]] = dataclasses.field(default_factory=list)
    cursors: dict[str, str] = dataclasses.field(default_factory=dict)
    #: by the monotonic clock: when it was begun, and when all of it was decided
    began_s: float = 0.0
    decided_s: float = 0.0
    #: written by a process that does not lead: nothing is decided, all of it is `queued`
    is_acceptance: bool = False
    #: the number that its first event got at the last try to write it, and that event
    logged: tuple[int, Event] | None = None

    def touched(self) -> set[bytes]:
        """The recorded tasks that this round moves."""
        tasks = [task for task, _ in self.placed] + [task for task, _ in self.retried]
        return {task.id for task in tasks + [task for task, _, _ in self.failed] if task.recorded}


@dataclasses.dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of a round."""

    #: placements that did not become true: their room goes back
    taken_back: list[Placed] = dataclasses.field(default_factory=list)
    #: tasks that are over, whoever ended them
    over: list[bytes] = dataclasses.field(default_factory=list)
    #: tasks that wait from now on
    queued: list[Waiting] = dataclasses.field(default_factory=list)
    retried: list[Waiting] = dataclasses.field(default_factory=list)
    #: tasks to be tried again with fresh data
    again: set[bytes] = dataclasses.field(default_factory=set)


class RoomRefused(Exception):
    """The guarded write found less room than the mirror thought."""

    def __init__(self, host_ids: frozenset[int]) -> None:
        super().__init__(f"{len(host_ids)} hosts had less room than thought")
        self.host_ids = host_ids


class TasksLost(Exception):
    """Some recorded tasks were ended by somebody else between the decision and the commit."""

    def __init__(self, ids: frozenset[bytes]) -> None:
        super().__init__(f"{len(ids)} tasks were over already")
        self.ids = ids


class LettersTaken(Conflict):
    """Some dead letters were sent again by somebody else, or thrown away."""

    code = "already_requeued"

    def __init__(self, letters: Sequence[str]) -> None:
        super().__init__(f"{letters[0]} was sent again already, or deleted", remedy="see what became of it")
        self.letters = frozenset(letters)


class Committer:
    """Writes rounds under the fence of this process."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.fence = 0
        self._deltas: dict[Shape, msgspec.Raw] = {}

    async def take_fence(self) -> int:
        """Where there are several processes, everybody who reads the log hears of it in the same commit."""
        async with self._store.transaction() as tx:
            fence = await tx.take_fence()
            if self._store.origin:
                await tx.append_events([_elected(fence, self._clock.now_ms())])
        self.fence = fence
        return fence

    async def load_cursors(self) -> dict[str, str]:
        text = await self._store.setting(_CURSORS)
        return dict(json.loads(text)) if text else {}

    async def commit(self, decided: Round, mirror: Mirror) -> Outcome:
        """Writes what can be written; what the database refuses is taken out, bounded, and the rest tried again.

        Where it fails, everything that is not true stands in `decided` again, as the caller has to undo it.
        """
        outcome = Outcome()
        try:
            await self._commit(decided, outcome, mirror)
        except BaseException:
            decided.placed += outcome.taken_back
            raise
        return outcome

    async def _commit(self, decided: Round, outcome: Outcome, mirror: Mirror) -> None:
        for number in range(COMMIT_TRIES_MAX):
            try:
                await self._write(decided, mirror)
                break
            except RoomRefused as refused:
                _hold_back(decided, outcome, refused.host_ids)
            except TasksLost as lost:
                _forget(decided, outcome, lost.ids)
            except NamesTaken as clash:
                _turn_away(decided, outcome, clash, _with_names(decided, clash.names))
            except IdsTaken as clash:
                _turn_away(decided, outcome, clash, _with_ids(decided, clash.ids))
            except LettersTaken as clash:
                _turn_away(decided, outcome, clash, [s for s in decided.submissions if s.letter in clash.letters])
            except Conflict as conflict:
                await self._single_out(decided, outcome, mirror, conflict)
                return
            except OutcomeUnknown:
                if await self._was_written(decided):
                    break
            except Unavailable as error:
                if error.error_code != "retry_transaction" or number == COMMIT_TRIES_MAX - 1:
                    raise
                await asyncio.sleep(_RETRY_WAIT_S * (number + 1))
        else:
            raise Unavailable("the database kept refusing this round", remedy="send it again in a moment")
        self._conclude(decided, outcome)

    async def _single_out(self, decided: Round, outcome: Outcome, mirror: Mirror, conflict: Conflict) -> None:
        """One request of a round clashes in a way that does not name it: each is written by itself."""
        if len(decided.submissions) <= 1:
            _turn_away(decided, outcome, conflict, list(decided.submissions))
            if decided.placed or decided.queued or decided.retried or decided.failed:
                outcome_rest = await self.commit(decided, mirror)
                _merge(outcome, outcome_rest)
            return
        true = set[bytes]()
        try:
            for part in _apart(decided):
                ids = {task.id for submission in part.submissions for task in submission.tasks}
                _merge(outcome, await self.commit(part, mirror))
                true |= ids
        except BaseException:
            _settle_some(decided, true)
            raise
        decided.submissions = [s for s in decided.submissions if not s.done.done()]

    async def _was_written(self, decided: Round) -> bool:
        """The answer to COMMIT was lost: everything of a round is there, or nothing."""
        for number in range(COMMIT_TRIES_MAX):
            try:
                return await self._look_up(decided)
            except Unavailable:
                await asyncio.sleep(_RETRY_WAIT_S * 2**number)
        raise OutcomeUnknown(
            "the database went away while committing",
            remedy=_ASK_AGAIN,
        )

    async def _look_up(self, decided: Round) -> bool:
        """The log knows: what we wrote stands there under the number it got, and bears our name.

        The rows of the tasks would not do, since whoever leads by now may have moved them, too.
        """
        if decided.logged is None:
            return True
        first, event = decided.logged
        try:
            found = await self._store.events(_EVERYTHING, after=first - 1, limit=1)
        except Gone as gone:
            raise OutcomeUnknown(gone.detail, remedy=_ASK_AGAIN) from gone
        return bool(found) and found[0].origin == self._store.origin and _mark(found[0]) == _mark(event)

    # ── the transaction ───────────────────────────────────────────────────────────────────────────

    async def _write(self, decided: Round, mirror: Mirror) -> None:
        async with self._store.transaction() as tx:
            if not decided.is_acceptance:
                await tx.check_fence(self.fence)
            await self._move_old(tx, decided)
            refused = await tx.take_room(_room_changes(decided.placed))
            if refused:
                raise RoomRefused(refused)
            await self._add_new(tx, decided, mirror)
            if decided.failed:
                wanted = await tx.callbacks_of([task.id for task, _, _ in decided.failed])
                await tx.add_dead(_letters(decided, {one.task_id: one.callback for one in wanted}))
            if decided.cursors:
                await tx.set_setting(_CURSORS, json.dumps(decided.cursors, sort_keys=True))
            events = self._events(decided)
            if events:
                decided.logged = await tx.append_events(events), events[0]

    async def _move_old(self, tx: Transaction, decided: Round) -> None:
        """Recorded tasks first: whether they still want it decides what else is true."""
        moves = [_move_placed(task, placement, decided.now_ms) for task, placement in decided.placed if task.recorded]
        moves += [_move_retried(task, next_try_ms, decided.now_ms) for task, next_try_ms in decided.retried]
        moves += [_move_failed(task, code, why, decided.now_ms) for task, code, why in decided.failed if task.recorded]
        lost = await tx.move_tasks(moves) if moves else frozenset()
        binds = [Bind(t.id, p.host_id, decided.now_ms) for t, p in decided.placed if t.recorded]
        if binds:
            lost |= await tx.bind_instances(binds, fence=self.fence)
        if lost:
            raise TasksLost(lost)
        gone = [task.id for task, _, _ in decided.failed if task.recorded]
        if gone:
            await tx.remove_instances(gone, at_ms=decided.now_ms)

    async def _add_new(self, tx: Transaction, decided: Round, mirror: Mirror) -> None:
        if not decided.submissions:
            return
        await _take_letters(tx, decided)
        new = [task for submission in decided.submissions for task in submission.tasks]
        shapes = list({task.shape: None for task in new})
        shape_ids = dict(zip(shapes, await tx.intern_shapes(shapes), strict=True))
        tasks, instances = self._rows(decided, shape_ids, mirror)
        for submission in decided.submissions:
            submission.views = [
                VmView(instance=instances[task.id], shape=task.shape, task_id=task.id) for task in submission.tasks
            ]
        failed = {task.id for task, _, _ in decided.failed}
        await tx.add_instances([row for key, row in instances.items() if key not in failed])
        await tx.add_tasks(tasks)
        callbacks = [TaskCallback(task.id, task.callback) for task in new if task.callback is not None]
        if callbacks:
            await tx.add_callbacks(callbacks)
        answers = [
            submission.receipt.answer(submission.views, decided.now_ms)
            for submission in decided.submissions
            if submission.receipt is not None
        ]
        if answers:
            await tx.remember_answers(answers)

    def _rows(
        self, decided: Round, shape_ids: dict[Shape, int], mirror: Mirror
    ) -> tuple[list[Task], dict[bytes, Instance]]:
        tasks: list[Task] = []
        instances: dict[bytes, Instance] = {}
        for task, placement in decided.placed:
            if not task.recorded:
                shape_id = shape_ids[task.shape]
                tasks.append(_placed_task(task, shape_id, placement, decided.now_ms))
                address = mirror.address(placement.host_id)
                instances[task.id] = _placed_instance(task, shape_id, placement, decided.now_ms, address, self.fence)
        for task, next_try_ms in decided.queued:
            row = _open_task(task, shape_ids[task.shape])
            attempt = 0 if decided.is_acceptance else 1
            tasks.append(msgspec.structs.replace(row, attempt=attempt, next_try_ms=next_try_ms))
            instances[task.id] = _waiting_instance(task, row.shape_id)
        for task, code, why in decided.failed:
            if not task.recorded:
                row = _open_task(task, shape_ids[task.shape])
                tasks.append(_failed_task(row, code or why.code, why, decided.now_ms))
                instances[task.id] = _waiting_instance(task, row.shape_id)
        return tasks, instances

    # ── events ────────────────────────────────────────────────────────────────────────────────────

    def _events(self, decided: Round) -> list[Event]:
        actors = {task.id: s.actor for s in decided.submissions for task in s.tasks} if decided.submissions else {}
        events = [self._placed_event(task, placement, decided.now_ms, actors) for task, placement in decided.placed]
        for task, _ in decided.queued:
            events.append(_task_event(EventType.TASK_ACCEPTED, task, decided.now_ms, actors, now=TaskState.QUEUED))
        for task, _ in decided.retried:
            events.append(_task_event(EventType.TASK_RETRIED, task, decided.now_ms, actors, now=TaskState.QUEUED))
        for task, code, why in decided.failed:
            event = _task_event(EventType.TASK_FAILED, task, decided.now_ms, actors, now=TaskState.FAILED)
            events.append(msgspec.structs.replace(event, code=code or why.code, text=why.text))
        return events + [_requeued_event(s) for s in decided.submissions if s.letter]

    def _placed_event(self, task: Waiting, placement: Placement, now_ms: int, actors: dict[bytes, str]) -> Event:
        return Event(
            type=EventType.TASK_COMPLETED,
            kind="task",
            id=id_to_text(task.id),
            version=task.version + 1,
            at_ms=now_ms,
            vm=task.name or derived_vm_name(task.id),
            host=placement.host,
            pool=task.shape.pool,
            delta=self._delta(task.shape),
            fence=self.fence,
            actor=actors.get(task.id, ""),
            was="queued" if task.recorded else "",
            now="completed",
            trace=task.trace,
        )

    def _delta(self, shape: Shape) -> msgspec.Raw:
        """Most placements repeat a shape: its delta is written out once."""
        raw = self._deltas.get(shape)
        if raw is None:
            if len(self._deltas) > 10_000:
                self._deltas.clear()
            raw = self._deltas[shape] = msgspec.Raw(msgspec.json.encode(shape.resources))
        return raw

    def _conclude(self, decided: Round, outcome: Outcome) -> None:
        """The rows are true: the tasks in memory say so too."""
        outcome.over += [task.id for task, _ in decided.placed] + [task.id for task, _, _ in decided.failed]
        for task, next_try_ms in decided.queued:
            task.recorded, task.attempt, task.version = True, 0 if decided.is_acceptance else 1, 1
            task.next_try_ms = next_try_ms
            outcome.queued.append(task)
        for task, next_try_ms in decided.retried:
            task.attempt, task.version, task.next_try_ms = task.attempt + 1, task.version + 1, next_try_ms
            outcome.retried.append(task)


# ── rows and events of one task ───────────────────────────────────────────────────────────────────


def _open_task(waiting: Waiting, shape_id: int) -> Task:
    return Task(
        id=waiting.id,
        instance_id=waiting.id,
        given_name=waiting.name,
        state=TaskState.QUEUED,
        shape_id=shape_id,
        when_unplaceable=waiting.when_unplaceable,
        priority=waiting.priority,
        accepted_ms=waiting.accepted_ms,
        deadline_ms=waiting.deadline_ms,
        gang=waiting.gang,
        trace=waiting.trace,
    )


def _placed_task(waiting: Waiting, shape_id: int, placement: Placement, now_ms: int) -> Task:
    """Accepted and placed in one commit: written once, as it ended."""
    return Task(
        id=waiting.id,
        instance_id=waiting.id,
        given_name=waiting.name,
        state=TaskState.COMPLETED,
        shape_id=shape_id,
        when_unplaceable=waiting.when_unplaceable,
        priority=waiting.priority,
        accepted_ms=waiting.accepted_ms,
        deadline_ms=waiting.deadline_ms,
        ended_ms=now_ms,
        host_id=placement.host_id,
        gang=waiting.gang,
    )


def _failed_task(row: Task, code: str, why: Explanation, now_ms: int) -> Task:
    return msgspec.structs.replace(
        row, state=TaskState.FAILED, attempt=1, ended_ms=now_ms, code=code, reason=why.text, explanation=why
    )


def _placed_instance(
    waiting: Waiting, shape_id: int, placement: Placement, now_ms: int, address: str, fence: int
) -> Instance:
    return Instance(
        id=waiting.id,
        shape_id=shape_id,
        given_name=waiting.name,
        host_id=placement.host_id,
        host=placement.host,
        address=address,
        fence=fence,
        created_ms=waiting.accepted_ms,
        placed_ms=now_ms,
    )


def _waiting_instance(waiting: Waiting, shape_id: int) -> Instance:
    return Instance(id=waiting.id, shape_id=shape_id, given_name=waiting.name, created_ms=waiting.accepted_ms)


def _move_placed(task: Waiting, placement: Placement, now_ms: int) -> TaskMove:
    between = check_move(TaskState.QUEUED, TaskState.PROCESSING)
    return TaskMove(
        id=task.id,
        was=TaskState.QUEUED,
        now=check_move(between, TaskState.COMPLETED),
        at_ms=now_ms,
        host_id=placement.host_id,
        steps=(Step(now_ms, between), Step(now_ms, TaskState.COMPLETED, placement.host)),
    )


def _move_retried(task: Waiting, next_try_ms: int, now_ms: int) -> TaskMove:
    between = check_move(TaskState.QUEUED, TaskState.PROCESSING)
    return TaskMove(
        id=task.id,
        was=TaskState.QUEUED,
        now=check_move(between, TaskState.QUEUED),
        at_ms=now_ms,
        attempt=task.attempt + 1,
        next_try_ms=next_try_ms,
        steps=(Step(now_ms, between), Step(now_ms, TaskState.QUEUED, f"try {task.attempt + 1}: no host fits")),
    )


def _move_failed(task: Waiting, code: str, why: Explanation, now_ms: int) -> TaskMove:
    between = check_move(TaskState.QUEUED, TaskState.PROCESSING)
    return TaskMove(
        id=task.id,
        was=TaskState.QUEUED,
        now=check_move(between, TaskState.FAILED),
        at_ms=now_ms,
        attempt=task.attempt + 1,
        code=code or why.code,
        reason=why.text,
        explanation=why,
        steps=(Step(now_ms, between), Step(now_ms, TaskState.FAILED, code or why.code)),
    )


def _task_event(kind: EventType, task: Waiting, now_ms: int, actors: dict[bytes, str], *, now: TaskState) -> Event:
    return Event(
        type=kind,
        kind="task",
        id=id_to_text(task.id),
        version=task.version + 1,
        at_ms=now_ms,
        vm=task.name or derived_vm_name(task.id),
        pool=task.shape.pool,
        actor=actors.get(task.id, ""),
        was="queued" if task.recorded else "",
        now=now.word,
        trace=task.trace,
    )


def _mark(event: Event) -> tuple[object, ...]:
    """What tells one event of a process from any other of its own."""
    return event.type, event.id, event.version, event.at_ms, event.host, event.fence


def _requeued_event(submission: Submission) -> Event:
    """The letter is of the old task, `task` is the new one."""
    first = submission.tasks[0]
    return Event(
        type=EventType.DEAD_REQUEUED,
        kind="dead",
        id=submission.letter,
        at_ms=first.accepted_ms,
        task=id_to_text(first.id),
        actor=submission.actor,
    )


# ── dead letters ──────────────────────────────────────────────────────────────────────────────────


def _letters(decided: Round, callbacks: Mapping[bytes, Callback]) -> list[DeadLetter]:
    """One for each request that failed: those who share one fate share a letter."""
    groups: dict[bytes, list[tuple[Waiting, str, Explanation]]] = {}
    for entry in decided.failed:
        groups.setdefault(entry[0].gang or entry[0].id, []).append(entry)
    return [
        letter_of_tasks(
            [id_to_text(task.id) for task, _, _ in group],
            vm=group[0][0].name or derived_vm_name(group[0][0].id),
            pool=group[0][0].shape.pool,
            code=group[0][1] or group[0][2].code,
            reason=group[0][2].text,
            at_ms=decided.now_ms,
            callbacks={id_to_text(task.id): callbacks[task.id] for task, _, _ in group if task.id in callbacks},
        )
        for group in groups.values()
    ]


async def _take_letters(tx: Transaction, decided: Round) -> None:
    """What is sent again is sent again once."""
    taken = [
        submission.letter
        for submission in decided.submissions
        if submission.letter
        and not await tx.requeue_dead(
            submission.letter,
            now_as=id_to_text(submission.tasks[0].id),
            at_ms=submission.tasks[0].accepted_ms,
        )
    ]
    if taken:
        raise LettersTaken(taken)


def _room_changes(placed: Sequence[Placed]) -> list[RoomChange]:
    """What all placements of a round take, one change for each host, in a fixed order.

    Counted by the address of the shape, since most requests share theirs; equal shapes at two addresses do no harm.
    """
    shapes = {id(task.shape): task.shape for task, _ in placed}
    wants = {address: shape.resources for address, shape in shapes.items()}
    taken: dict[int, tuple[Resources, int]] = {}
    for (host_id, address), times in Counter([(place.host_id, id(task.shape)) for task, place in placed]).items():
        amounts, instances = _times(wants[address], times), times
        if host_id in taken:
            amounts, instances = plus(amounts, taken[host_id][0]), instances + taken[host_id][1]
        taken[host_id] = (amounts, instances)
    return [RoomChange(host_id, *taken[host_id]) for host_id in sorted(taken)]


def _times(wants: dict[str, int], times: int) -> dict[str, int]:
    return wants if times == 1 else {name: amount * times for name, amount in wants.items()}


# ── taking out what the database refused ──────────────────────────────────────────────────────────


def _hold_back(decided: Round, outcome: Outcome, host_ids: frozenset[int]) -> None:
    """Placements on hosts without the room wait for fresh data; of a gang, all do."""
    gangs = {task.gang for task, placement in decided.placed if placement.host_id in host_ids and task.gang}
    kept: list[Placed] = []
    for task, placement in decided.placed:
        if placement.host_id not in host_ids and task.gang not in gangs:
            kept.append((task, placement))
            continue
        outcome.taken_back.append((task, placement))
        outcome.again.add(task.id)
        if not task.recorded:
            decided.queued.append((task, decided.now_ms))
    decided.placed = kept


def _forget(decided: Round, outcome: Outcome, ids: frozenset[bytes]) -> None:
    outcome.over += ids
    outcome.taken_back += [pair for pair in decided.placed if pair[0].id in ids]
    decided.placed = [pair for pair in decided.placed if pair[0].id not in ids]
    decided.retried = [pair for pair in decided.retried if pair[0].id not in ids]
    decided.failed = [entry for entry in decided.failed if entry[0].id not in ids]


def _turn_away(decided: Round, outcome: Outcome, error: Exception, submissions: list[Submission]) -> None:
    """These requests fail, all of each; the rest of the round goes on."""
    if not submissions:
        raise error
    ids = {task.id for submission in submissions for task in submission.tasks}
    for submission in submissions:
        submission.fail(error)
    outcome.taken_back += [pair for pair in decided.placed if pair[0].id in ids]
    _leave_out(decided, ids)


def _settle_some(decided: Round, ids: set[bytes]) -> None:
    """These requests are true or refused, whatever becomes of the rest: nobody may write them again."""
    for submission in decided.submissions:
        if submission.tasks[0].id in ids:
            submission.settle()
    _leave_out(decided, ids)


def _leave_out(decided: Round, ids: set[bytes]) -> None:
    """New requests, each whole."""
    decided.submissions = [submission for submission in decided.submissions if submission.tasks[0].id not in ids]
    decided.placed = [pair for pair in decided.placed if pair[0].id not in ids]
    decided.queued = [pair for pair in decided.queued if pair[0].id not in ids]
    decided.failed = [entry for entry in decided.failed if entry[0].id not in ids]


def _with_names(decided: Round, names: frozenset[str]) -> list[Submission]:
    ids = {id_from_derived_vm_name(name) for name in names}
    return [s for s in decided.submissions if any(task.name in names or task.id in ids for task in s.tasks)]


def _with_ids(decided: Round, ids: frozenset[bytes]) -> list[Submission]:
    return [s for s in decided.submissions if any(task.id in ids for task in s.tasks)]


def _apart(decided: Round) -> list[Round]:
    """One round for each request, and one for the tasks that were recorded before."""
    owner = {task.id: number for number, s in enumerate(decided.submissions) for task in s.tasks}
    like = functools.partial(Round, now_ms=decided.now_ms, opening=decided.opening, is_acceptance=decided.is_acceptance)
    parts = [like(submissions=[submission]) for submission in decided.submissions]
    rest = like(submissions=[], cursors=decided.cursors)
    everyone = [*parts, rest]
    for pair in decided.placed:
        everyone[owner.get(pair[0].id, -1)].placed.append(pair)
    for queued in decided.queued:
        everyone[owner.get(queued[0].id, -1)].queued.append(queued)
    for entry in decided.failed:
        everyone[owner.get(entry[0].id, -1)].failed.append(entry)
    rest.retried = decided.retried
    return everyone


def _merge(outcome: Outcome, more: Outcome) -> None:
    outcome.taken_back += more.taken_back
    outcome.over += more.over
    outcome.queued += more.queued
    outcome.retried += more.retried
    outcome.again |= more.again


def _elected(fence: int, now_ms: int) -> Event:
    return Event(
        type=EventType.LEADER_ELECTED,
        kind="leader",
        id=OFFICE,
        version=fence,
        at_ms=now_ms,
        fence=fence,
        text="decides now",
    )
