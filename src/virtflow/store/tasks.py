"""Tasks, as rows: every request from acceptance to its end."""

import heapq
from collections.abc import AsyncIterator, Sequence

import msgspec

from virtflow.model.explanation import Explanation
from virtflow.model.task import TERMINAL, Step, Task, TaskState, WhenUnplaceable
from virtflow.store.contract import Counts, IdsTaken, RetryTransaction, TaskFilter, TaskMove
from virtflow.store.hosts import json_text
from virtflow.store.instances import repeated
from virtflow.store.session import CHUNK_ROWS, Reader, Row, Session, Snapshots

_STATES = tuple(TaskState)
_WHENS = tuple(WhenUnplaceable)
_explanation = msgspec.json.Decoder(Explanation).decode
_steps = msgspec.json.Decoder(tuple[Step, ...]).decode


def task_from_row(row: Row) -> Task:
    key, state = row[0], _STATES[row[2]]
    instance_id = row[12] or key
    return Task(
        id=key,
        shape_id=row[1],
        state=state,
        when_unplaceable=_WHENS[row[3]],
        priority=row[4],
        attempt=row[5],
        version=row[6],
        accepted_ms=row[7],
        next_try_ms=row[8],
        ended_ms=row[9],
        host_id=row[10],
        deadline_ms=row[11],
        instance_id=instance_id,
        given_name=row[13],
        gang=row[14],
        code=row[15],
        reason=row[16],
        explanation=_explanation(row[17]) if row[17] else None,
        history=_steps(f"[{row[18]}]") if row[18] else derived_history(state, row[7], row[9]),
        host=row[19],
        address=row[20],
        trace=row[21] or "",
    )


def derived_history(state: TaskState, accepted_ms: int, ended_ms: int | None) -> tuple[Step, ...]:
    """The history of a task that went straight through, which is not stored."""
    accepted = Step(accepted_ms, TaskState.QUEUED)
    if state is TaskState.QUEUED:
        return (accepted,)
    if state is TaskState.CANCELLED:
        return (accepted, Step(ended_ms or accepted_ms, state))
    taken_up = Step(accepted_ms, TaskState.PROCESSING)
    if state is TaskState.PROCESSING:
        return (accepted, taken_up)
    return (accepted, taken_up, Step(ended_ms or accepted_ms, state))


class TaskReads:
    _near: Reader
    _far: Reader
    _snapshot: Snapshots

    async def task(self, key: bytes) -> Task | None:
        rows = await self._near.rows("task_by_id", key)
        return task_from_row(rows[0]) if rows else None

    async def tasks(self, where: TaskFilter, *, after: bytes = b"", limit: int) -> list[Task]:
        if not where.states:
            rows = await self._far.rows("tasks_page", after, where.pool, limit)
            return [task_from_row(row) for row in rows]
        pages = [await self._tasks_in(state, after, where.pool, limit) for state in sorted(set(where.states))]
        merged = heapq.merge(*pages, key=lambda row: row[0])
        return [task_from_row(row) for row, _ in zip(merged, range(limit), strict=False)]

    async def _tasks_in(self, state: TaskState, after: bytes, pool: str | None, limit: int) -> Sequence[Row]:
        if state is TaskState.COMPLETED:
            return await self._far.rows("tasks_completed", after, pool, limit)
        name = "tasks_refused_in" if state in TERMINAL else "tasks_open_in"
        return await self._far.rows(name, state, after, pool, limit)

    async def open_tasks(self) -> AsyncIterator[list[Task]]:
        after = (-1, b"")
        async with self._snapshot() as reader:
            while rows := await reader.rows("open_tasks", *after, CHUNK_ROWS):
                tasks = [task_from_row(row) for row in rows]
                after = (tasks[-1].accepted_ms, tasks[-1].id)
                yield tasks

    async def waiting_tasks(self, ids: Sequence[bytes]) -> list[Task]:
        if not ids:
            return []
        tasks = [task_from_row(row) for row in await self._far.rows("waiting_tasks", list(ids))]
        return sorted(tasks, key=lambda task: (task.accepted_ms, task.id))

    async def scan_tasks(self) -> AsyncIterator[list[Task]]:
        after = b""
        async with self._snapshot() as reader:
            while rows := await reader.rows("tasks_page", after, None, CHUNK_ROWS):
                after = rows[-1][0]
                yield [task_from_row(row) for row in rows]

    async def counts(self) -> Counts:
        [(hosts, instances, waiting, tasks, oldest_ms)] = await self._far.rows("counts")
        unfinished = {_STATES[state]: number for state, number in await self._far.rows("count_unfinished")}
        return Counts(
            hosts=hosts,
            instances=instances,
            instances_placed=instances - waiting,
            tasks={state: unfinished.get(state, 0) for state in TaskState}
            | {TaskState.COMPLETED: tasks - sum(unfinished.values())},
            oldest_waiting_ms=oldest_ms,
        )


class TaskWrites:
    _session: Session

    async def add_tasks(self, tasks: Sequence[Task]) -> None:
        if not tasks:
            return
        ids = [task.id for task in tasks]
        if taken := {row[0] for row in await self._session.rows("taken_task_ids", ids)} | repeated(ids):
            raise IdsTaken(sorted(taken))
        if await self._session.each("add_task", [_columns(task) for task in tasks]):
            raise RetryTransaction("somebody else has just used one of these ids")

    async def task_versions(self, ids: Sequence[bytes]) -> dict[bytes, int]:
        return {row[0]: row[1] for row in await self._session.rows("task_versions", list(ids))} if ids else {}

    async def move_tasks(self, moves: Sequence[TaskMove]) -> frozenset[bytes]:
        if not moves:
            return frozenset()
        if len({move.id for move in moves}) != len(moves):
            raise ValueError("one move per task in one call")
        return frozenset(row[-1] for row in await self._session.each("move_task", [_move(move) for move in moves]))


def _columns(task: Task) -> Row:
    key, instance_id, history = task.id, task.instance_id, task.history
    if history and history == derived_history(task.state, task.accepted_ms, task.ended_ms):
        history = ()
    return (
        task.shape_id,
        task.state,
        task.when_unplaceable,
        task.priority,
        task.attempt,
        task.version,
        task.accepted_ms,
        task.next_try_ms,
        task.ended_ms,
        task.host_id,
        task.deadline_ms,
        None if instance_id == key else instance_id,
        task.given_name,
        task.gang,
        task.code,
        task.reason,
        None if task.explanation is None else json_text(task.explanation),
        _steps_text(history),
        task.trace or None,
        key,
    )


def _move(move: TaskMove) -> Row:
    return (
        move.now,
        move.at_ms if move.now in TERMINAL else None,
        move.host_id,
        move.attempt,
        move.next_try_ms,
        move.code,
        move.reason,
        None if move.explanation is None else json_text(move.explanation),
        _steps_text(move.steps),
        move.was,
        move.id,
    )


def _steps_text(steps: Sequence[Step]) -> str | None:
    """JSON without the outer brackets, so that a history grows by appending."""
    return json_text(steps)[1:-1] if steps else None
