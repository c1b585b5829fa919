"""VMs: ordering, reading, deleting."""

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.exchange import JSON_TYPE, Exchange
from virtflow.api.explanations import ExplanationOut, View, explanation_out
from virtflow.api.idempotency import answer, key_of, once
from virtflow.api.ids import id_texts
from virtflow.api.operation import OPERATOR, Call, Desk, Noun, nothing, ok
from virtflow.api.orders import VmBatchIn, VmIn
from virtflow.api.pages import Paged, cursor_key, cut
from virtflow.api.query import NoQuery, given, read_query
from virtflow.api.rules import BULK, Name, PoolName, TaskId
from virtflow.api.versions import etag
from virtflow.control.orders import Rendered, VmOrder
from virtflow.model.errors import InvalidRequest, NotFound
from virtflow.model.instance import Status
from virtflow.model.names import TASK_ID, id_to_text, is_name
from virtflow.model.shape import Dedicated, Shape
from virtflow.model.times import time_or_none, time_text
from virtflow.model.views import DeletedMany, VmView
from virtflow.store.contract import InstanceFilter

vms = Noun("vms")

StatusWord = Literal["pending", "running", "failed", "unknown"]


class ConditionOut(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is so, or is not."""

    type: Literal["scheduled"]
    state: bool


class VmOut(msgspec.Struct, frozen=True, kw_only=True):
    """A VM."""

    name: str
    id: str
    task_id: str
    status: StatusWord
    conditions: list[ConditionOut]
    host: str | None
    address: str | None
    pool: str
    resources: dict[str, int]
    dedicated: Dedicated
    labels: dict[str, str]
    zone: str
    strategy: str
    weights: dict[str, float]
    generation: int
    version: int
    created_at: str
    placed_at: str | None


class VmDetail(VmOut, frozen=True, kw_only=True):
    """A VM, and why it waits."""

    #: null when placed
    explanation: ExplanationOut | None


class VmsOut(msgspec.Struct, frozen=True, kw_only=True):
    """Some VMs, in the order of the request."""

    items: list[VmOut]


class VmPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of VMs, in the order of their ids, which is about the order of their making."""

    items: list[VmOut]
    next: str | None


class VmQuery(Paged, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which VMs."""

    pool: PoolName | UnsetType = UNSET
    host: Name | UnsetType = UNSET
    status: StatusWord | UnsetType = UNSET
    placed: Annotated[bool, Meta(description="true: has a host; false: waits for one")] | UnsetType = UNSET
    view: Annotated[View, Meta(description="default: operator")] | UnsetType = UNSET


class ViewQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For whom."""

    view: Annotated[View, Meta(description="default: operator")] | UnsetType = UNSET


class NamesIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names or ids of VMs."""

    names: Annotated[list[TaskId], BULK]


class DeletedOut(msgspec.Struct, frozen=True, kw_only=True):
    """How many were there, and which were not."""

    deleted: int
    absent: list[str]


# ── what is answered ──────────────────────────────────────────────────────────────────────────────

_encode = msgspec.json.Encoder().encode
#: by number
_STATUS = tuple(f'"status":"{status.word}"' for status in sorted(Status))
_SCHEDULED = tuple(f'"conditions":[{{"type":"scheduled","state":{word}}}]' for word in ("false", "true"))
SHAPES_MAX = 16_384
HOSTS_MAX = 65_536


class VmWriter:
    """Writes `VmOut` as JSON for the hot routes, where building the records costs more than placing the VMs.

    A test compares the two. Names need no escapes, whatever else people wrote is encoded once and kept.
    """

    def __init__(self) -> None:
        self._shapes: dict[Shape, str] = {}
        self._hosts: dict[tuple[str | None, str | None], str] = {}

    def one(self, view: VmView) -> bytes:
        return self._texts((view,))[0].encode()

    def many(self, views: Sequence[VmView], tail: str = "") -> bytes:
        texts = self._texts(views) or [""]
        # glued to the first and last: the whole text is copied once less
        texts[0] = '{"items":[' + texts[0]
        texts[-1] += f"]{tail}}}"
        return ",".join(texts).encode()

    def _texts(self, views: Sequence[VmView]) -> list[str]:
        """One long loop on purpose: for a batch of thousands, each call within it would be felt."""
        texts = []
        shapes, hosts = self._shapes, self._hosts
        created_ms, placed_ms, times = -1, None, ""
        for view, id_text in zip(views, id_texts([view.instance.id for view in views]), strict=True):
            vm = view.instance
            if vm.created_ms != created_ms or vm.placed_ms != placed_ms:
                created_ms, placed_ms = vm.created_ms, vm.placed_ms
                placed_at = "null" if placed_ms is None else f'"{time_text(placed_ms)}"'
                times = f'"created_at":"{time_text(created_ms)}","placed_at":{placed_at}'
            shape = shapes.get(view.shape) or self._shape(view.shape)
            host = hosts.get((vm.host, vm.address)) or self._host(vm.host, vm.address)
            task_id = id_text if view.task_id == vm.id else id_to_text(view.task_id)
            texts.append(
                f'{{"name":"{vm.given_name or vm.name}","id":"{id_text}","task_id":"{task_id}",{_STATUS[vm.status]},'
                f"{_SCHEDULED[vm.host is not None]},{host},{shape},"
                f'"generation":{vm.generation},"version":{vm.version},{times}}}'
            )
        return texts

    def _host(self, name: str | None, address: str | None) -> str:
        if len(self._hosts) >= HOSTS_MAX:
            self._hosts.clear()
        text = self._hosts[name, address] = _fields(host=name, address=address)
        return text

    def _shape(self, shape: Shape) -> str:
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        text = self._shapes[shape] = _fields(
            pool=shape.pool,
            resources=shape.resources,
            dedicated=shape.dedicated,
            labels=dict(shape.labels),
            zone=shape.zone,
            strategy=shape.strategy,
            weights=dict(shape.weights),
        )
        return text


def _fields(**fields: object) -> str:
    """Some fields of an object, in this order, without its braces."""
    return _encode(fields).decode()[1:-1]


def vm_detail(view: VmView, *, audience: object) -> VmDetail:
    vm, shape = view.instance, view.shape
    return VmDetail(
        name=vm.name,
        id=vm.id_text,
        task_id=id_to_text(view.task_id),
        status=vm.status.word,  # type: ignore[arg-type]
        conditions=[ConditionOut(type="scheduled", state=vm.host is not None)],
        host=vm.host,
        address=vm.address,
        pool=shape.pool,
        resources=shape.resources,
        dedicated=shape.dedicated,
        labels=dict(shape.labels),
        zone=shape.zone,
        strategy=shape.strategy,
        weights=dict(shape.weights),
        generation=vm.generation,
        version=vm.version,
        created_at=time_text(vm.created_ms),
        placed_at=time_or_none(vm.placed_ms),
        explanation=explanation_out(view.explanation, view=audience),
    )


def _accepted(writer: VmWriter, views: list[VmView]) -> Rendered:
    view = views[0]
    location = ("location", f"/v1/vms/{view.instance.name}")
    return 202, writer.one(view), (*JSON_TYPE, location, etag(view.instance.version))


def _accepted_all(writer: VmWriter, views: list[VmView]) -> Rendered:
    return 202, writer.many(views), JSON_TYPE


# ── the calls, the hot ones first ─────────────────────────────────────────────────────────────────

EXAMPLE = {"name": "web-1", "resources": {"cpu": 2000, "memory": 4096}, "pool": "ai"}
_TO_TASK = {"task": {"operationId": "get_task", "parameters": {"task_id": "$response.body#/task_id"}}}
_TO_VM = {"vm": {"operationId": "get_vm", "parameters": {"name": "$response.body#/name"}}}


@vms.post(
    "/v1/vms",
    body=VmIn,
    answers={202: VmOut},
    refusals=(409,),
    example=EXAMPLE,
    links={**_TO_TASK, **_TO_VM},
    is_hot=True,
)
async def create_vm(desk: Desk, exchange: Exchange) -> Rendered:
    """Ask for a VM. The answer comes when the request is safe on disk; often the VM has its host by then."""
    exchange.route = "/v1/vms"
    order = await desk.orders.read_one(await order_body(desk, exchange))
    return await place_order(desk, exchange, (order,), functools.partial(_accepted, desk.vm_writer))


@vms.post(
    "/v1/vms/batch",
    body=VmBatchIn,
    answers={202: VmsOut},
    refusals=(409,),
    example={"items": [EXAMPLE, {"resources": {"cpu": 500, "memory": 1024}}]},
    is_hot=True,
)
async def create_vms(desk: Desk, exchange: Exchange) -> Rendered:
    """Ask for many VMs, each for itself or all together."""
    exchange.route = "/v1/vms/batch"
    orders, together = await desk.orders.read_many(await order_body(desk, exchange))
    render = functools.partial(_accepted_all, desk.vm_writer)
    try:
        return await place_order(desk, exchange, orders, render, together=together)
    except InvalidRequest as error:
        if len(orders) == 1:  # further in, a list of one is taken for a single order
            error.fields = tuple(
                msgspec.structs.replace(one, pointer="/items/0" + one.pointer.removeprefix("/items/0"))
                for one in error.fields
            )
        raise


async def order_body(desk: Desk, exchange: Exchange) -> bytes:
    if exchange.scope.get("query_string"):
        read_query(exchange.scope["query_string"], NoQuery)
    body = await desk.bodies.read(exchange.headers, exchange.receive)
    exchange.body_taken = True
    return body


async def place_order(
    desk: Desk,
    exchange: Exchange,
    orders: Sequence[VmOrder],
    render: Callable[[list[VmView]], Rendered],
    *,
    together: bool = False,
    check_pool: bool = True,
) -> Rendered:
    """Hand the orders in, once for each Idempotency-Key."""
    create = functools.partial(
        desk.house.vms.create,
        orders,
        together=together,
        actor=OPERATOR,
        cause=exchange.cause,
        check_pool=check_pool,
    )
    if b"idempotency-key" not in exchange.headers:
        return render(await create(receipt=None))
    key = key_of(exchange, principal=OPERATOR, meaning=(together, orders))

    async def place() -> Rendered:
        receipt = None if key is None else key.receipt(render)
        return answer(receipt, render, await create(receipt=receipt))

    return await once(desk.house.answers, key, place)


@vms.get("/v1/vms", query=VmQuery, answers={200: VmPage})
async def list_vms(call: Call[None, VmQuery]) -> Rendered:
    """List VMs."""
    query = call.query
    where = InstanceFilter(
        pool=given(query.pool),
        host=given(query.host),
        status=Status[query.status.upper()] if query.status else None,
        placed=given(query.placed),
    )
    views = await call.house.vms.list(where, after=cursor_key("v", query), limit=query.count + 1)
    page, following = cut(views, query.count, "v", lambda view: view.instance.id)
    return 200, call.desk.vm_writer.many(page, f",{_fields(next=following)}"), JSON_TYPE


@vms.get("/v1/vms/{name}", query=ViewQuery, answers={200: VmDetail})
async def get_vm(call: Call[None, ViewQuery]) -> Rendered:
    """Read a VM, by name or id. One that waits says why."""
    view = await call.house.vms.get(_name(call))
    return ok(vm_detail(view, audience=call.query.view), etag(view.instance.version))


def _name(call: Call[None, ViewQuery] | Call[None, NoQuery]) -> str:
    """A name or an id. What is neither is not asked of the database."""
    name = call.path["name"]
    if not is_name(name) and TASK_ID.fullmatch(name) is None:
        raise NotFound("no VM is called that", code="vm_not_found", remedy="name it by its name or its id")
    return name


@vms.delete("/v1/vms/{name}", answers={204: None}, refusals=(409,))
async def delete_vm(call: Call[None, NoQuery]) -> Rendered:
    """Delete a VM and give its room back. Deleting what was deleted before is fine."""
    await call.house.vms.delete(_name(call), expected_version=await call.version(), actor=call.actor)
    return nothing()


@vms.post(
    "/v1/vms/batch-delete", body=NamesIn, answers={200: DeletedOut}, refusals=(409,), example={"names": ["web-1"]}
)
async def delete_vms(call: Call[NamesIn, NoQuery]) -> Rendered:
    """Delete many VMs, by name or id."""
    receipt = call.receipt(_deleted)
    return answer(
        receipt, _deleted, await call.house.vms.delete_many(call.body.names, actor=call.actor, receipt=receipt)
    )


def _deleted(result: DeletedMany) -> Rendered:
    return ok(DeletedOut(deleted=result.deleted, absent=result.absent))
