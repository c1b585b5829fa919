"""Capacity: how many more such VMs fit."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.hosts import label_pairs
from virtflow.api.operation import Call, Noun, ok
from virtflow.api.query import given
from virtflow.api.rules import Amount, AmountOf, LabelIs, PoolName, Text, wanted_rule
from virtflow.api.strict import Findings, refusal
from virtflow.control.orders import Rendered
from virtflow.model.capacity import Capacity, Slots
from virtflow.model.errors import FieldProblem, InvalidRequest
from virtflow.model.limits import CUSTOM_DIMENSIONS_MAX, LABELS_MAX
from virtflow.model.resources import CPU, DISK, GPU, MEMORY
from virtflow.model.shape import Dedicated, Shape, shape

capacity = Noun("capacity")


class CapacityQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one such VM takes, and where it may stand."""

    cpu: Annotated[Amount, Meta(description="millicores")] | UnsetType = UNSET
    memory: Annotated[Amount, Meta(description="MiB")] | UnsetType = UNSET
    disk: Annotated[Amount, Meta(description="GiB")] | UnsetType = UNSET
    gpu: Amount | UnsetType = UNSET
    resource: (
        Annotated[
            list[AmountOf], Meta(max_length=CUSTOM_DIMENSIONS_MAX + 1, description="name=amount, may be repeated")
        ]
        | UnsetType
    ) = UNSET
    pool: Annotated[PoolName, Meta(description="default: every pool")] | UnsetType = UNSET
    dedicated: Literal["required", "allowed", "forbidden", "true", "false"] | UnsetType = UNSET
    label: (
        Annotated[list[LabelIs], Meta(max_length=LABELS_MAX, description="key=value, may be repeated")] | UnsetType
    ) = UNSET
    zone: Text | UnsetType = UNSET


class PoolCapacityOut(msgspec.Struct, frozen=True, kw_only=True):
    """How many fit in one pool."""

    pool: str
    #: with room for at least one
    hosts: int
    total: int
    #: when the host whose loss costs most is gone
    total_after_loss: int
    #: that host
    biggest_host: str | None


class CapacityOut(msgspec.Struct, frozen=True, kw_only=True):
    """How many fit."""

    resources: dict[str, int]
    total: int
    total_after_loss: int
    pools: list[PoolCapacityOut]


_DEDICATED = {"true": Dedicated.REQUIRED, "false": Dedicated.ALLOWED, **{word.value: word for word in Dedicated}}


@capacity.get("/v1/capacity", query=CapacityQuery, answers={200: CapacityOut})
async def get_capacity(call: Call[None, CapacityQuery]) -> Rendered:
    """Say how many more such VMs fit, now and after the loss of a host."""
    query = call.query
    wanted = _shape(query)
    counted = await call.house.placements.capacity(wanted)
    pools = counted.pools if query.pool is UNSET else {query.pool: _pool(counted, query.pool)}
    total = counted.total if query.pool is UNSET else counted.pools[query.pool]
    return ok(
        CapacityOut(
            resources=wanted.resources,
            total=total.now,
            total_after_loss=total.after_loss,
            pools=[
                PoolCapacityOut(
                    pool=name,
                    hosts=slots.hosts,
                    total=slots.now,
                    total_after_loss=slots.after_loss,
                    biggest_host=slots.biggest_host or None,
                )
                for name, slots in pools.items()
            ],
        )
    )


def _pool(counted: Capacity, name: str) -> Slots:
    if name not in counted.pools:
        known = ", ".join(repr(one) for one in list(counted.pools)[:10]) or "none yet"
        problem = FieldProblem("?pool", f"no pool {name!r}", f"known pools: {known}")
        raise InvalidRequest(problem.detail, code="no_such_pool", remedy=problem.remedy, fields=[problem])
    return counted.pools[name]


def _shape(query: CapacityQuery) -> Shape:
    asked = {CPU: query.cpu or 0, MEMORY: query.memory or 0, DISK: query.disk or 0, GPU: query.gpu or 0}
    custom = _custom(query.resource or [])
    findings = Findings()
    if twice := asked.keys() & custom.keys():
        findings.add("?resource", f"names {', '.join(sorted(twice))}, which is a parameter of its own")
    elif problem := wanted_rule({**asked, **custom}):
        findings.add("?cpu", problem, "such as ?cpu=2000&memory=4096")
    if findings:
        raise refusal(findings)
    return shape(
        {**asked, **custom},
        pool=given(query.pool) or "",
        dedicated=_DEDICATED[query.dedicated or "allowed"],
        labels=label_pairs(query.label or []),
        zone=query.zone or "",
    )


def _custom(texts: Sequence[str]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for text in texts:
        name, _, digits = text.partition("=")
        if name in amounts:
            findings = Findings()
            findings.add("?resource", f"asks for two amounts of {name}", "leave one of them")
            raise refusal(findings)
        amounts[name] = int(digits)
    return amounts
