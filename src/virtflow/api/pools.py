"""Pools: what holds for a group of hosts. The pool "" is spelled "-" in a path."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.operation import Call, Noun, nothing, ok
from virtflow.api.orders import check_strategy
from virtflow.api.pages import Paged, bad_cursor, cursor_key, cut
from virtflow.api.query import NoQuery
from virtflow.api.rules import PoolName, Ratios, StrategyName
from virtflow.api.strict import Findings, refusal
from virtflow.api.versions import etag
from virtflow.control.orders import Rendered
from virtflow.model.errors import NotFound
from virtflow.model.names import NAME_RULE, is_name
from virtflow.model.pool import PoolSpec
from virtflow.model.times import time_or_none
from virtflow.model.views import PoolView

pools = Noun("pools")

#: "-" is no valid name, so nothing else is called that
EMPTY = "-"


class PoolIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said about a pool."""

    name: Annotated[PoolName, Meta(description="if given, the one in the path")] | UnsetType = UNSET
    overcommit: Annotated[Ratios, Meta(description="per dimension; hosts may say otherwise")] | UnsetType = UNSET
    strategy: Annotated[StrategyName, Meta(description="empty: the installation's")] | UnsetType = UNSET
    accepts_work: Annotated[bool, Meta(description="default: true")] | UnsetType = UNSET


class PoolOut(msgspec.Struct, frozen=True, kw_only=True):
    """A pool."""

    name: str
    #: false: it exists only because hosts name it
    explicit: bool
    overcommit: dict[str, float]
    strategy: str
    effective_strategy: str
    accepts_work: bool
    hosts: int
    version: int
    created_at: str | None
    updated_at: str | None


class PoolPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of pools, in name order."""

    items: list[PoolOut]
    next: str | None


def pool_out(view: PoolView) -> PoolOut:
    pool = view.pool
    return PoolOut(
        name=pool.name,
        explicit=pool.explicit,
        overcommit=pool.spec.overcommit,
        strategy=pool.spec.strategy,
        effective_strategy=view.effective_strategy,
        accepts_work=pool.spec.accepts_work,
        hosts=view.hosts,
        version=pool.version,
        created_at=time_or_none(pool.created_ms),
        updated_at=time_or_none(pool.updated_ms),
    )


def _shown(view: PoolView) -> Rendered:
    return ok(pool_out(view), etag(view.pool.version))


def _name(call: Call[None, NoQuery]) -> str:
    name = call.path["name"]
    if name == EMPTY:
        return ""
    if not is_name(name):
        raise NotFound(
            "no pool is called that", code="no_such_pool", remedy=f"a name is {NAME_RULE}; '-' is the pool ''"
        )
    return name


@pools.get("/v1/pools", query=Paged, answers={200: PoolPage})
async def list_pools(call: Call[None, Paged]) -> Rendered:
    """List pools."""
    after = cursor_key("p", call.query).decode("latin-1")
    if after and after != EMPTY and not is_name(after):
        raise bad_cursor()
    views = await call.house.pools.list()
    # the pool "" comes first, and everything comes after it
    rest = [view for view in views if not after or view.pool.name > after.removeprefix(EMPTY)]
    page, following = cut(rest, call.query.count, "p", lambda view: (view.pool.name or EMPTY).encode())
    return ok(PoolPage(items=[pool_out(view) for view in page], next=following))


@pools.get("/v1/pools/{name}", answers={200: PoolOut})
async def get_pool(call: Call[None, NoQuery]) -> Rendered:
    """Read a pool."""
    return _shown(await call.house.pools.get(_name(call)))


@pools.put(
    "/v1/pools/{name}",
    body=PoolIn,
    answers={200: PoolOut},
    refusals=(409,),
    example={"overcommit": {"cpu": 2.0}, "strategy": "best_fit"},
)
async def put_pool(call: Call[PoolIn, NoQuery]) -> Rendered:
    """Say what holds for a pool."""
    said, name = call.body, _put_name(call)
    check_strategy(said.strategy or "", {})
    spec = PoolSpec(
        name=name,
        overcommit=said.overcommit or {},
        strategy=said.strategy or "",
        accepts_work=True if said.accepts_work is UNSET else said.accepts_work,
    )
    version = await call.version(lambda: call.house.pools.get(name))
    return _shown(await call.house.pools.put(spec, expected_version=version, actor=call.actor))


def _put_name(call: Call[PoolIn, NoQuery]) -> str:
    path, findings = call.path["name"], Findings()
    name = "" if path == EMPTY else path
    if name and not is_name(name):
        findings.add("/name", f"the name in the path must be {NAME_RULE}, or '-' for the pool ''")
    elif call.body.name is not UNSET and call.body.name != name:
        findings.add("/name", f"is not {name!r}, the name in the path", "leave it out")
    if findings:
        raise refusal(findings)
    return name


@pools.delete("/v1/pools/{name}", answers={204: None})
async def delete_pool(call: Call[None, NoQuery]) -> Rendered:
    """Forget what was said about a pool; hosts go on naming it."""
    await call.house.pools.delete(_name(call), expected_version=await call.version(), actor=call.actor)
    return nothing()
