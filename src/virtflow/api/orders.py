"""Orders for VMs out of bodies: quickly for the many that are plain, strictly for all others.

A plain body is decoded by `msgspec` alone, and its shape looked up by the bytes that matter for placing. Whatever is
new, rare or wrong takes the strict way of `strict.py`, which gives the same order or names every mistake.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.rules import (
    BULK,
    Amount,
    DeadlineS,
    Labels,
    Name,
    PoolName,
    Priority,
    SigningSecretText,
    StrategyName,
    TaskId,
    Text,
    Wanted,
    WebUrl,
    Weights,
)
from virtflow.api.strict import Findings, parse, read, refusal, take
from virtflow.control.orders import VmOrder
from virtflow.engine import strategies
from virtflow.model.errors import FieldProblem, InvalidStrategy
from virtflow.model.limits import AMOUNT_MAX
from virtflow.model.names import NAME, TASK_ID, is_name
from virtflow.model.resources import CPU, DIMENSIONS, DISK, GPU, MEMORY
from virtflow.model.secret import Secret
from virtflow.model.shape import Dedicated, Shape, shape
from virtflow.model.task import WhenUnplaceable
from virtflow.model.webhook import Callback

T = TypeVar("T")

#: larger bodies are looked at by another thread, so that one long list of mistakes delays nobody
THREAD_FROM_BYTES = 64 * 1024
#: shapes known by their spelling; beyond that the dictionary starts anew
SHAPES_MAX = 16_384

CORES_MAX = AMOUNT_MAX // 1000
DedicatedIn = Annotated[bool | Dedicated, Meta(description="true means required, false means allowed")]
When = Literal["fail", "wait"]
_DEDICATED: dict[object, Dedicated] = {
    True: Dedicated.REQUIRED,
    False: Dedicated.ALLOWED,
    UNSET: Dedicated.ALLOWED,
    **{word.value: word for word in Dedicated},
}
_WHEN = {"fail": WhenUnplaceable.FAIL, "wait": WhenUnplaceable.WAIT}
_BUILT_IN = frozenset(DIMENSIONS)


class VmIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A VM that somebody asks for."""

    resources: Annotated[Wanted, Meta(description="cpu in millicores, memory in MiB, disk in GiB, gpu in pieces")]
    name: Annotated[Name, Meta(description="default: vm- and its id")] | UnsetType = UNSET
    pool: Annotated[PoolName, Meta(description='default: "default"')] | UnsetType = UNSET
    dedicated: DedicatedIn | UnsetType = UNSET
    labels: Annotated[Labels, Meta(description="labels that the host must carry")] | UnsetType = UNSET
    zone: Annotated[Text, Meta(description="the zone that the host must be in; empty: any")] | UnsetType = UNSET
    strategy: Annotated[StrategyName, Meta(description="default: the pool's")] | UnsetType = UNSET
    weights: Annotated[Weights, Meta(description="for strategies with settable weights")] | UnsetType = UNSET
    priority: Annotated[Priority, Meta(description="higher is placed first")] | UnsetType = UNSET
    when_unplaceable: Annotated[When, Meta(description="default: wait")] | UnsetType = UNSET
    deadline_s: Annotated[DeadlineS, Meta(description="a task that still waits then fails")] | UnsetType = UNSET
    callback_url: Annotated[WebUrl, Meta(description="told of the end of the task, once")] | UnsetType = UNSET
    callback_secret: (
        Annotated[SigningSecretText, Meta(description="what signs that message; without one it is not signed")]
        | UnsetType
    ) = UNSET


class VmBatchIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several VMs at once."""

    items: Annotated[list[VmIn], BULK]
    mode: Literal["each", "all_or_nothing"] | UnsetType = UNSET


Cores = Annotated[int, Meta(ge=1, le=CORES_MAX)]
MiB = Annotated[int, Meta(ge=1, le=AMOUNT_MAX)]


class ScheduleIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A VM in the words of the first API."""

    requested_cpu: Annotated[Cores, Meta(description="whole cores")]
    requested_memory: Annotated[MiB, Meta(description="MiB")]
    requested_pool: Annotated[PoolName, Meta(description='"" is a pool of its own')]
    dedicated: DedicatedIn
    task_id: Annotated[TaskId, Meta(description="of your own choice; the same again is the same task")] | UnsetType = (
        UNSET
    )
    requested_disk: Annotated[Amount, Meta(description="GiB")] | UnsetType = UNSET
    requested_gpu: Amount | UnsetType = UNSET
    labels: Annotated[Labels, Meta(description="labels that the host must carry")] | UnsetType = UNSET
    strategy: Annotated[StrategyName, Meta(description="default: the pool's")] | UnsetType = UNSET
    priority: Annotated[Priority, Meta(description="higher is placed first")] | UnsetType = UNSET
    when_unplaceable: Annotated[When, Meta(description="default: fail")] | UnsetType = UNSET
    deadline_s: Annotated[DeadlineS, Meta(description="a task that still waits then fails")] | UnsetType = UNSET
    name: Annotated[Name, Meta(description="of the VM; default: vm- and its id")] | UnsetType = UNSET
    callback_url: Annotated[WebUrl, Meta(description="told of the end of the task, once")] | UnsetType = UNSET
    callback_secret: (
        Annotated[SigningSecretText, Meta(description="what signs that message; without one it is not signed")]
        | UnsetType
    ) = UNSET


# The same as they arrive: what nests stays bytes, so that equal requests are recognised without building anything.
# Who wants a callback is not here: that is rare enough for the strict way.


class _VmLine(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    resources: msgspec.Raw
    name: str | UnsetType = UNSET
    pool: str | UnsetType = UNSET
    dedicated: bool | str | UnsetType = UNSET
    labels: msgspec.Raw | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    strategy: str | UnsetType = UNSET
    weights: msgspec.Raw | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    when_unplaceable: When | UnsetType = UNSET
    deadline_s: DeadlineS | UnsetType = UNSET


class _BatchLines(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    items: Annotated[list[_VmLine], BULK]
    mode: Literal["each", "all_or_nothing"] | UnsetType = UNSET


class _ScheduleLine(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    requested_cpu: Cores
    requested_memory: MiB
    requested_pool: str
    dedicated: bool | str
    task_id: str | UnsetType = UNSET
    requested_disk: Amount | UnsetType = UNSET
    requested_gpu: Amount | UnsetType = UNSET
    labels: msgspec.Raw | UnsetType = UNSET
    strategy: str | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    when_unplaceable: When | UnsetType = UNSET
    deadline_s: DeadlineS | UnsetType = UNSET
    name: str | UnsetType = UNSET


_decode_vm = msgspec.json.Decoder(_VmLine).decode
_decode_batch = msgspec.json.Decoder(_BatchLines).decode
_decode_schedule = msgspec.json.Decoder(_ScheduleLine).decode
_decode_amounts = msgspec.json.Decoder(dict[str, Amount]).decode
_encode = msgspec.json.Encoder().encode
_NAME_LINES = re.compile(rf"(?>(?:{NAME.pattern})\n)*+", re.ASCII)
#: all that msgspec raises about a body that is not what it should be
_NOT_PLAIN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Orders:
    """Reads orders, and remembers the shapes it has seen."""

    def __init__(self) -> None:
        self._by_spelling: dict[tuple[object, ...], Shape] = {}
        self._shapes: dict[Shape, Shape] = {}

    async def read_one(self, body: bytes) -> VmOrder:
        line = _plain(_decode_vm, body)
        order = None if line is None else self._order(line)
        return order or self.order_of(await read_aside(body, VmIn))

    async def read_many(self, body: bytes) -> tuple[Sequence[VmOrder], bool]:
        """The orders, and whether they are to be placed together or not at all."""
        lines = _plain(_decode_batch, body)
        if lines is not None and (orders := self._plain_orders(lines.items)) is not None:
            return orders, lines.mode == "all_or_nothing"
        batch = await read_aside(body, VmBatchIn)
        return self.orders_of(batch.items), batch.mode == "all_or_nothing"

    async def read_schedule(self, body: bytes) -> VmOrder:
        line = _plain(_decode_schedule, body)
        order = None if line is None else self._schedule_order(line)
        return order or self._order_of_schedule(await read_aside(body, ScheduleIn))

    def orders_of(self, vms: Sequence[VmIn]) -> Sequence[VmOrder]:
        _refuse_names_twice(vms)
        return [self.order_of(vm, place=f"/items/{number}") for number, vm in enumerate(vms)]

    def order_of(self, vm: VmIn, *, place: str = "") -> VmOrder:
        check_strategy(vm.strategy or "", vm.weights or {}, place=place)
        wanted = shape(
            vm.resources,
            pool="default" if vm.pool is UNSET else vm.pool,
            dedicated=_DEDICATED[vm.dedicated],
            labels=vm.labels or {},
            zone=vm.zone or "",
            strategy=vm.strategy or "",
            weights=vm.weights or {},
        )
        return _with_callback(_order(self._same(wanted), vm, None, WhenUnplaceable.WAIT), vm, place=place)

    def _order_of_schedule(self, asked: ScheduleIn) -> VmOrder:
        check_strategy(asked.strategy or "", {})
        wanted = shape(
            _resources(asked),
            pool=asked.requested_pool,
            dedicated=_DEDICATED[asked.dedicated],
            labels=asked.labels or {},
            strategy=asked.strategy or "",
        )
        return _with_callback(_order(self._same(wanted), asked, asked.task_id or None, WhenUnplaceable.FAIL), asked)

    # ── the quick way: None wherever somebody must look closer ────────────────────────────────────

    def _order(self, line: _VmLine) -> VmOrder | None:
        if line.name is not UNSET and NAME.fullmatch(line.name) is None:
            return None
        wanted = self._by_spelling.get(_spelling(line)) or self._learn_line(line)
        return None if wanted is None else _order(wanted, line, None, WhenUnplaceable.WAIT)

    def _plain_orders(self, lines: Sequence[_VmLine]) -> Sequence[VmOrder] | None:
        """One long loop on purpose: a batch of thousands passes through here."""
        if not _are_plain_names([line.name for line in lines if line.name is not UNSET]):
            return None
        orders = []
        known = self._by_spelling
        for line in lines:
            wanted = known.get(_spelling(line)) or self._learn_line(line)
            if wanted is None:
                return None
            if line.priority is UNSET is line.when_unplaceable is line.deadline_s:
                orders.append(VmOrder(shape=wanted, name=None if line.name is UNSET else line.name))
            else:
                orders.append(_order(wanted, line, None, WhenUnplaceable.WAIT))
        return orders

    def _schedule_order(self, line: _ScheduleLine) -> VmOrder | None:
        if line.name is not UNSET and NAME.fullmatch(line.name) is None:
            return None
        if line.task_id is not UNSET and TASK_ID.fullmatch(line.task_id) is None:
            return None
        spelling = (
            line.requested_cpu, line.requested_memory, line.requested_pool, line.dedicated, line.strategy,
            line.requested_disk, line.requested_gpu, line.labels if line.labels is UNSET else bytes(line.labels),
        )  # fmt: skip
        known = self._by_spelling.get(spelling)
        if known is None:
            new = _common_shape(line, _resources(line), line.requested_pool)
            if new is None:
                return None
            known = self._learn(spelling, new)
        return _order(known, line, line.task_id or None, WhenUnplaceable.FAIL)

    def _learn_line(self, line: _VmLine) -> Shape | None:
        new = _common_vm_shape(line)
        return None if new is None else self._learn(_spelling(line), new)

    def _learn(self, spelling: tuple[object, ...], new: Shape) -> Shape:
        if len(self._by_spelling) >= SHAPES_MAX:
            self._by_spelling.clear()
        known = self._by_spelling[spelling] = self._same(new)
        return known

    def _same(self, new: Shape) -> Shape:
        """One object for all equal shapes: whoever compares them later compares addresses first."""
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        return self._shapes.setdefault(new, new)


def _spelling(line: _VmLine) -> tuple[object, ...]:
    """All that matters for placing, as it was written."""
    return (
        bytes(line.resources),
        line.pool,
        line.dedicated,
        line.zone,
        line.strategy,
        line.labels if line.labels is UNSET else bytes(line.labels),
        line.weights if line.weights is UNSET else bytes(line.weights),
    )


def check_strategy(name: str, weights: Mapping[str, float], *, place: str = "") -> None:
    """A strategy nobody knows, or weights that it does not have. What the pool will choose is not known here."""
    try:
        if name:
            strategies.weigh(strategies.get(name), weights)
    except InvalidStrategy as error:
        field = "weights" if error.error_code == "invalid_weights" else "strategy"
        problem = FieldProblem(f"{place}/{field}", error.detail, error.remedy)
        raise InvalidStrategy(error.detail, code=error.error_code, remedy=error.remedy, fields=[problem]) from None


async def read_aside(body: bytes, of: type[T]) -> T:
    """`strict.read`; a large body does not hold up the others."""
    return read(body, of) if len(body) < THREAD_FROM_BYTES else await asyncio.to_thread(read, body, of)


def read_one_or_many(body: bytes, one: type[Any], many: type[Any]) -> Any:
    value = parse(body)
    return take(value, many if isinstance(value, dict) and "items" in value else one)


def _plain(decode: Any, body: bytes) -> Any:
    """The decoded body when it is right and no key stands twice; None otherwise.

    Written out again without the keys that were overwritten, a body with a doubled key has fewer colons. Escapes
    could hide a colon, so a body with one is not plain.
    """
    if b"\\" in body:
        return None
    try:
        line = decode(body)
    except _NOT_PLAIN:
        return None
    return line if _encode(line).count(b":") == body.count(b":") else None


def _order(wanted: Shape, asked: Any, task_id: str | None, when: WhenUnplaceable) -> VmOrder:
    name = None if asked.name is UNSET else asked.name
    if task_id is None and asked.priority is UNSET is asked.when_unplaceable is asked.deadline_s:
        return VmOrder(shape=wanted, name=name, when_unplaceable=when)
    return VmOrder(
        shape=wanted,
        name=name,
        task_id=task_id,
        when_unplaceable=_WHEN.get(asked.when_unplaceable, when),
        priority=asked.priority or 0,
        deadline_s=asked.deadline_s or None,
    )


def _with_callback(order: VmOrder, asked: VmIn | ScheduleIn, *, place: str = "") -> VmOrder:
    if asked.callback_url is UNSET:
        if asked.callback_secret is not UNSET:
            problem = FieldProblem(f"{place}/callback_secret", "signs nothing without a callback_url", "say both")
            raise refusal([problem])
        return order
    callback = Callback(asked.callback_url, Secret(asked.callback_secret or ""))
    return msgspec.structs.replace(order, callback=callback)


def _resources(asked: ScheduleIn | _ScheduleLine) -> dict[str, int]:
    return {
        CPU: asked.requested_cpu * 1000,
        MEMORY: asked.requested_memory,
        DISK: asked.requested_disk or 0,
        GPU: asked.requested_gpu or 0,
    }


def _common_vm_shape(line: _VmLine) -> Shape | None:
    """For a spelling not seen before, if nothing in it is rare."""
    if line.weights is not UNSET or line.zone is not UNSET:
        return None
    try:
        amounts = _decode_amounts(line.resources)
    except _NOT_PLAIN:
        return None
    plain = bytes(line.resources).count(b":") == len(amounts) and amounts.keys() <= _BUILT_IN
    if not plain or not (amounts.get(CPU) or amounts.get(MEMORY)):
        return None
    return _common_shape(line, amounts, "default" if line.pool is UNSET else line.pool)


def _common_shape(line: _VmLine | _ScheduleLine, amounts: dict[str, int], pool: str) -> Shape | None:
    dedicated = _DEDICATED.get(line.dedicated)
    strategy = line.strategy or ""
    if dedicated is None or line.labels is not UNSET or not (pool == "" or is_name(pool)):
        return None
    if strategy and strategy not in strategies.names():
        return None
    return shape(amounts, pool=pool, dedicated=dedicated, strategy=strategy)


def _are_plain_names(names: Sequence[str]) -> bool:
    """Right and different, all in one look."""
    text = "\n".join([*names, ""])
    return len(set(names)) == len(names) == text.count("\n") and _NAME_LINES.fullmatch(text) is not None


def _refuse_names_twice(vms: Iterable[VmIn]) -> None:
    seen: set[str] = set()
    findings = Findings()
    for number, vm in enumerate(vms):
        if vm.name is UNSET:
            continue
        if vm.name in seen and len(findings) < 10:
            findings.add(f"/items/{number}/name", "stands twice in this request", "give each VM a name of its own")
        seen.add(vm.name)
    if findings:
        raise refusal(findings)
