"""Tasks: the full record of each request, and taking it back."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.explanations import ExplanationOut, View, explanation_out
from virtflow.api.idempotency import answer
from virtflow.api.operation import Call, Noun, ok
from virtflow.api.pages import Paged, cursor_key, cut
from virtflow.api.query import NoQuery, given
from virtflow.api.rules import PoolName
from virtflow.api.versions import etag
from virtflow.api.vms import ViewQuery
from virtflow.control.orders import Rendered
from virtflow.model.errors import InvalidRequest, NotFound
from virtflow.model.names import id_from_text, id_to_text
from virtflow.model.shape import Dedicated
from virtflow.model.task import TaskState
from virtflow.model.times import time_or_none, time_text
from virtflow.model.views import TaskView
from virtflow.store.contract import TaskFilter

tasks = Noun("tasks")

StateWord = Literal["queued", "processing", "completed", "failed", "cancelled"]


class StepOut(msgspec.Struct, frozen=True, kw_only=True):
    """One move in the life of a task."""

    at: str
    state: StateWord
    note: str


class TaskOut(msgspec.Struct, frozen=True, kw_only=True):
    """A task."""

    task_id: str
    vm: str
    vm_id: str
    state: StateWord
    pool: str
    resources: dict[str, int]
    dedicated: Dedicated
    labels: dict[str, str]
    zone: str
    strategy: str
    weights: dict[str, float]
    priority: int
    when_unplaceable: Literal["fail", "wait"]
    host: str | None
    address: str | None
    #: how often it was tried without success
    attempts: int
    accepted_at: str
    next_try_at: str | None
    deadline_at: str | None
    ended_at: str | None
    duration_ms: int | None
    code: str | None
    reason: str | None
    explanation: ExplanationOut | None
    history: list[StepOut]
    version: int


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tasks, in the order of their ids, which is about the order of their making."""

    items: list[TaskOut]
    next: str | None


class TaskQuery(Paged, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tasks."""

    state: Annotated[list[StateWord], Meta(max_length=5, description="may be repeated")] | UnsetType = UNSET
    pool: PoolName | UnsetType = UNSET
    view: Annotated[View, Meta(description="default: operator")] | UnsetType = UNSET


def task_out(view: TaskView, *, audience: object) -> TaskOut:
    task, shape = view.task, view.shape
    return TaskOut(
        task_id=task.id_text,
        vm=task.vm_name,
        vm_id=id_to_text(task.instance_id),
        state=task.state.word,  # type: ignore[arg-type]
        pool=shape.pool,
        resources=shape.resources,
        dedicated=shape.dedicated,
        labels=dict(shape.labels),
        zone=shape.zone,
        strategy=shape.strategy,
        weights=dict(shape.weights),
        priority=task.priority,
        when_unplaceable=task.when_unplaceable.word,  # type: ignore[arg-type]
        host=task.host,
        address=task.address,
        attempts=task.attempt,
        accepted_at=time_text(task.accepted_ms),
        next_try_at=None if task.is_over else time_or_none(task.next_try_ms),
        deadline_at=time_or_none(task.deadline_ms),
        ended_at=time_or_none(task.ended_ms),
        duration_ms=None if task.ended_ms is None else max(0, task.ended_ms - task.accepted_ms),
        code=task.code,
        reason=task.reason,
        explanation=explanation_out(view.explanation, view=audience),
        history=[StepOut(at=time_text(step.at_ms), state=step.state.word, note=step.note) for step in task.history],  # type: ignore[arg-type]
        version=task.version,
    )


def _shown(view: TaskView, audience: object = "operator") -> Rendered:
    return ok(task_out(view, audience=audience), etag(view.task.version))


@tasks.get("/v1/tasks", query=TaskQuery, answers={200: TaskPage})
async def list_tasks(call: Call[None, TaskQuery]) -> Rendered:
    """List tasks."""
    query = call.query
    where = TaskFilter(states=tuple(TaskState[word.upper()] for word in query.state or []), pool=given(query.pool))
    views = await call.house.tasks.list(where, after=cursor_key("t", query), limit=query.count + 1)
    page, following = cut(views, query.count, "t", lambda view: view.task.id)
    return ok(TaskPage(items=[task_out(view, audience=query.view) for view in page], next=following))


@tasks.get("/v1/tasks/{task_id}", query=ViewQuery, answers={200: TaskOut})
async def get_task(call: Call[None, ViewQuery]) -> Rendered:
    """Read a task. One that waits says why."""
    return _shown(await call.house.tasks.get(_key(call)), call.query.view)


@tasks.post("/v1/tasks/{task_id}/cancel", answers={200: TaskOut}, has_version=True, refusals=(409,))
async def cancel_task(call: Call[None, NoQuery]) -> Rendered:
    """Take a request back while it waits. Cancelling twice is fine."""
    receipt = call.receipt(_shown)
    key = _key(call)
    version = await call.version()
    return answer(
        receipt,
        _shown,
        await call.house.tasks.cancel(key, expected_version=version, actor=call.actor, receipt=receipt),
    )


def _key(call: Call[None, ViewQuery] | Call[None, NoQuery]) -> bytes:
    try:
        return id_from_text(call.path["task_id"])
    except InvalidRequest:
        raise NotFound(
            "no task is called that", code="task_not_found", remedy="name it by the id that it was answered with"
        ) from None
