"""Tasks: reading and cancelling."""

from collections.abc import Callable, Sequence

from virtflow.control.mirror import Mirror
from virtflow.control.orders import Receipt
from virtflow.control.waiting import WaitingRoom
from virtflow.engine.explain import explain
from virtflow.model.clock import Clock
from virtflow.model.errors import Conflict, NotFound, VersionMismatch
from virtflow.model.event import Event, EventType
from virtflow.model.names import id_to_text
from virtflow.model.task import Step, Task, TaskState, check_move
from virtflow.model.views import TaskView
from virtflow.store.contract import Store, TaskFilter, TaskMove, Transaction

#: how often a cancel is repeated when the task moves at the same moment
CANCEL_TRIES_MAX = 5


class Tasks:
    def __init__(
        self, *, store: Store, mirror: Mirror, waiting: WaitingRoom, clock: Clock, tell: Callable[[], None]
    ) -> None:
        self._store = store
        self._mirror = mirror
        self._waiting = waiting
        self._clock = clock
        self._tell = tell

    async def result(self, key: bytes) -> Task | None:
        return await self._store.task(key)

    async def get(self, key: bytes) -> TaskView:
        task = await self._store.task(key)
        if task is None:
            raise NotFound(
                f"no task {id_to_text(key)}", code="task_not_found", remedy="virtflow get tasks shows the latest"
            )
        return (await self._views([task], explained=True))[0]

    async def list(self, where: TaskFilter, *, after: bytes, limit: int) -> Sequence[TaskView]:
        return await self._views(await self._store.tasks(where, after=after, limit=limit), explained=False)

    async def _views(self, tasks: Sequence[Task], *, explained: bool) -> Sequence[TaskView]:
        shapes = await self._store.shapes(sorted({task.shape_id for task in tasks}))
        views = []
        for task in tasks:
            shape = shapes[task.shape_id]
            why = task.explanation
            if explained and not task.is_over:
                why = explain(self._mirror.fleet, shape)
            views.append(TaskView(task=task, shape=shape, explanation=why))
        return views

    async def cancel(
        self,
        key: bytes,
        *,
        expected_version: int | None,
        actor: str,
        receipt: Receipt[TaskView] | None = None,
    ) -> TaskView:
        """A waiting task ends; its VM never was. Cancelling twice is fine, cancelling what is over is not."""
        for _ in range(CANCEL_TRIES_MAX):
            view = await self.get(key)
            task = view.task
            if expected_version is not None and task.version != expected_version:
                raise VersionMismatch(
                    f"task {task.id_text} is at version {task.version}, not {expected_version}",
                    current_version=task.version,
                )
            if task.state is not TaskState.CANCELLED:
                check_move(task.state, TaskState.CANCELLED)
                if not await self._end(task, actor=actor):
                    continue  # it moved just now: look again
            after = await self.get(key)
            if receipt is not None:
                async with self._store.transaction() as tx:
                    await tx.remember_answers([receipt.answer(after, self._clock.now_ms())])
            return after
        raise Conflict(f"task {id_to_text(key)} keeps moving", remedy="send it again")

    async def _end(self, task: Task, *, actor: str) -> bool:
        now_ms = self._clock.now_ms()
        async with self._store.transaction() as tx:
            ended, events = await end_tasks(tx, [task.id], now_ms=now_ms, actor=actor, why="cancelled on request")
            if not ended:
                return False
            await tx.remove_instances(ended, at_ms=now_ms)
            await tx.append_events(events)
        self._waiting.remove(ended)
        self._tell()
        return True


async def end_tasks(
    tx: Transaction, ids: Sequence[bytes], *, now_ms: int, actor: str, why: str
) -> tuple[list[bytes], list[Event]]:
    """Cancels those still queued; says which, and what to tell."""
    moves = [
        TaskMove(
            id=key,
            was=TaskState.QUEUED,
            now=check_move(TaskState.QUEUED, TaskState.CANCELLED),
            at_ms=now_ms,
            code="cancelled",
            reason=why,
            steps=(Step(now_ms, TaskState.CANCELLED, why),),
        )
        for key in ids
    ]
    too_late = await tx.move_tasks(moves) if moves else frozenset()
    ended = [key for key in ids if key not in too_late]
    # as the database has them: another process may have tried these tasks since we heard of them
    versions = await tx.task_versions(ended) if ended else {}
    return ended, [_cancelled_event(key, versions[key], now_ms, actor) for key in ended]


def _cancelled_event(key: bytes, version: int, now_ms: int, actor: str) -> Event:
    return Event(
        type=EventType.TASK_CANCELLED,
        kind="task",
        id=id_to_text(key),
        version=version,
        at_ms=now_ms,
        actor=actor,
        code="cancelled",
        was=TaskState.QUEUED.word,
        now=TaskState.CANCELLED.word,
    )
