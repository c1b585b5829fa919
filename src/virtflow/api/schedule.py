"""The first API: one POST, one GET, in the words of its own."""

from typing import Literal

import msgspec

from virtflow.api.exchange import JSON_TYPE, Exchange
from virtflow.api.operation import Desk, Noun
from virtflow.api.orders import ScheduleIn
from virtflow.api.query import NoQuery, read_query
from virtflow.api.vms import order_body, place_order
from virtflow.control.orders import Rendered, VmOrder
from virtflow.model.errors import Conflict, InvalidRequest, NotFound
from virtflow.model.names import derived_vm_name, id_from_text, id_to_text
from virtflow.model.task import RESULT_WORD, Task, TaskState
from virtflow.model.views import TaskView, VmView

schedule = Noun("schedule")

NO_HOST = "No available nodes"
CANCELLED = "Cancelled"


class SubmittedOut(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of a request."""

    task_id: str
    message: Literal["Task submitted, check status later."]


class ChosenHost(msgspec.Struct, frozen=True, kw_only=True):
    """The host of a finished task."""

    name: str
    ip: str


class ResultOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a task. `result` stands beside `completed`; `error`, `reason` and `code` beside `failed`."""

    status: Literal["processing", "completed", "failed"]
    result: ChosenHost | msgspec.UnsetType = msgspec.UNSET
    error: str | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET


_encode = msgspec.json.Encoder().encode
_PROCESSING = _encode(ResultOut(status="processing"))


def _submitted(views: list[VmView]) -> Rendered:
    return _receipt(id_to_text(views[0].task_id))


def _receipt(task_id: str) -> Rendered:
    body = f'{{"task_id":"{task_id}","message":"Task submitted, check status later."}}'
    return 202, body.encode(), JSON_TYPE


@schedule.post(
    "/schedule",
    body=ScheduleIn,
    answers={202: SubmittedOut},
    refusals=(409,),
    example={"requested_cpu": 8, "requested_memory": 16384, "requested_pool": "ai", "dedicated": True},
    links={"result": {"operationId": "get_result", "parameters": {"task_id": "$response.body#/task_id"}}},
    is_hot=True,
)
async def submit(desk: Desk, exchange: Exchange) -> Rendered:
    """Ask for a VM, and look for the result later."""
    exchange.route = "/schedule"
    order = await desk.orders.read_schedule(await order_body(desk, exchange))
    if order.task_id is None:
        return await _submit(desk, exchange, order)
    # two of them at once: the second waits for the first, then finds its task
    async with desk.house.answers.claim("task_id", order.task_id, b""):
        try:
            return await _submit(desk, exchange, order)
        except Conflict:
            task = await desk.house.tasks.result(id_from_text(order.task_id))
            if task is None or not _is_same(order, await desk.house.tasks.get(task.id)):
                raise
            return _receipt(task.id_text)


async def _submit(desk: Desk, exchange: Exchange, order: VmOrder) -> Rendered:
    # a pool that nobody knows has no nodes: that is a result, not a mistake
    return await place_order(desk, exchange, (order,), _submitted, check_pool=False)


def _is_same(order: VmOrder, view: TaskView) -> bool:
    """Is this the task that the order once became?"""
    task = view.task
    deadline_ms = None if order.deadline_s is None else task.accepted_ms + order.deadline_s * 1000
    return (
        view.shape == order.shape
        and task.vm_name == (order.name or derived_vm_name(task.id))
        and (task.priority, task.when_unplaceable) == (order.priority, order.when_unplaceable)
        and task.deadline_ms == deadline_ms
    )


@schedule.get("/result/{task_id}", answers={200: ResultOut}, is_hot=True)
async def get_result(desk: Desk, exchange: Exchange) -> Rendered:
    """Read what became of a task."""
    exchange.route = "/result/{task_id}"
    return await _result(desk, exchange)


@schedule.get("/schedule/{task_id}", answers={200: ResultOut}, is_hot=True, id="get_schedule")
async def get_schedule(desk: Desk, exchange: Exchange) -> Rendered:
    """Read what became of a task, at its older address."""
    exchange.route = "/schedule/{task_id}"
    return await _result(desk, exchange)


async def _result(desk: Desk, exchange: Exchange) -> Rendered:
    if exchange.scope.get("query_string"):
        read_query(exchange.scope["query_string"], NoQuery)
    task_id = exchange.path.rpartition("/")[2]
    try:
        task = await desk.house.tasks.result(id_from_text(task_id))
    except InvalidRequest:
        task = None  # what can be no id is the id of no task
    if task is None:
        raise NotFound("Task ID not found", code="task_not_found", remedy="check the id that POST /schedule answered")
    return 200, _result_json(task), JSON_TYPE


def _result_json(task: Task) -> bytes:
    word = RESULT_WORD[task.state]
    if word == "processing":
        return _PROCESSING
    if word == "completed":
        return _encode(ResultOut(status="completed", result=ChosenHost(name=task.host or "", ip=task.address or "")))
    return _encode(
        ResultOut(
            status="failed",
            error=CANCELLED if task.state is TaskState.CANCELLED else NO_HOST,
            reason=task.reason or "",
            code=task.code or "insufficient_resources",
        )
    )
