"""Hosts: registering, changing, cordoning."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.exchange import JSON_TYPE
from virtflow.api.idempotency import answer
from virtflow.api.inventory import InventoryOut, inventories_out
from virtflow.api.operation import Call, Noun, encode, nothing, ok
from virtflow.api.pages import Paged, bad_cursor, cursor_key, cut
from virtflow.api.query import NoQuery, given
from virtflow.api.rules import (
    BULK,
    Address,
    Amount,
    Amounts,
    LabelIs,
    LabelKey,
    Labels,
    LabelValue,
    Name,
    PoolName,
    Ratio,
    Ratios,
    Text,
)
from virtflow.api.strict import Findings, refusal, take
from virtflow.api.versions import etag
from virtflow.control.orders import Rendered
from virtflow.model.errors import NotFound
from virtflow.model.host import Host, HostSpec, Source
from virtflow.model.limits import LABELS_MAX
from virtflow.model.names import NAME_RULE, is_name
from virtflow.model.resources import DIMENSIONS, VMS
from virtflow.model.times import time_or_none, time_text
from virtflow.store.contract import HostFilter

V = TypeVar("V")

hosts = Noun("hosts")


class HostSaid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said about a host whose name stands in the path."""

    name: Annotated[Name, Meta(description="if given, the one in the path")] | UnsetType = UNSET
    pool: Annotated[PoolName, Meta(description='default: "default"')] | UnsetType = UNSET
    address: Annotated[Address, Meta(description="an IP address or a host name")] | UnsetType = UNSET
    capacity: Annotated[Amounts, Meta(description="cpu in millicores, memory in MiB, disk in GiB")] | UnsetType = UNSET
    overcommit: Annotated[Ratios, Meta(description="per dimension; default: the pool's")] | UnsetType = UNSET
    reserved: Annotated[Amounts, Meta(description="held back from capacity")] | UnsetType = UNSET
    labels: Labels | UnsetType = UNSET
    zone: Text | UnsetType = UNSET
    rack: Text | UnsetType = UNSET
    model: Text | UnsetType = UNSET
    dedicated: bool | UnsetType = UNSET
    max_vms: Annotated[Amount, Meta(description="the same as capacity.vms")] | UnsetType = UNSET


class HostIn(HostSaid, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host as somebody registers it."""

    name: Name


class HostBatchIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several hosts, all or none."""

    items: Annotated[list[HostIn], BULK]


_AmountsPatch = dict[Name, Amount | None]


class HostPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A JSON merge patch (RFC 7396): what is not named stays, null takes away."""

    name: Name | UnsetType = UNSET
    pool: PoolName | UnsetType | None = UNSET
    address: Address | UnsetType | None = UNSET
    capacity: _AmountsPatch | UnsetType | None = UNSET
    overcommit: dict[Name, Ratio | None] | UnsetType | None = UNSET
    reserved: _AmountsPatch | UnsetType | None = UNSET
    labels: dict[LabelKey, LabelValue | None] | UnsetType | None = UNSET
    zone: Text | UnsetType | None = UNSET
    rack: Text | UnsetType | None = UNSET
    model: Text | UnsetType | None = UNSET
    dedicated: bool | UnsetType | None = UNSET
    max_vms: Amount | UnsetType | None = UNSET


class HostOut(msgspec.Struct, frozen=True, kw_only=True):
    """A host."""

    name: str
    pool: str
    address: str
    capacity: dict[str, int]
    overcommit: dict[str, float]
    reserved: dict[str, int]
    labels: dict[str, str]
    zone: str
    rack: str
    model: str
    dedicated: bool
    #: null: nothing was said
    max_vms: int | None
    cordoned: bool
    schedulable: bool
    #: it runs virtflow itself, and takes nothing for that
    carries_virtflow: bool
    source: Source
    #: use that an inventory reports and that is not ours
    foreign: dict[str, int]
    missing_since: str | None
    total: dict[str, int]
    allocatable: dict[str, int]
    used: dict[str, int]
    free: dict[str, int]
    instances: int
    version: int
    created_at: str
    updated_at: str


class HostsOut(msgspec.Struct, frozen=True, kw_only=True):
    """Some hosts."""

    items: list[HostOut]


class HostPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of hosts, in name order, and how fresh the inventories are."""

    items: list[HostOut]
    next: str | None
    inventory: list[InventoryOut]


class HostQuery(Paged, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which hosts."""

    pool: PoolName | UnsetType = UNSET
    zone: Text | UnsetType = UNSET
    label: (
        Annotated[list[LabelIs], Meta(max_length=LABELS_MAX, description="key=value, may be repeated")] | UnsetType
    ) = UNSET
    cordoned: bool | UnsetType = UNSET
    missing: bool | UnsetType = UNSET
    source: Literal["api", "file", "http", "simulated"] | UnsetType = UNSET


# ── what was said, as the domain has it ───────────────────────────────────────────────────────────


def spec_of(said: HostSaid, *, name: str, place: str = "") -> HostSpec:
    findings = Findings()
    if said.name is not UNSET and said.name != name:
        findings.add(f"{place}/name", f"is not {name}, the name in the path", "leave it out, or register a new host")
    capacity = _with_quota(said.capacity or {}, said.max_vms, place, findings)
    for field, amounts in (("overcommit", said.overcommit or {}), ("reserved", said.reserved or {})):
        for dimension in amounts:
            if dimension not in capacity and dimension not in DIMENSIONS:
                findings.add(f"{place}/{field}/{dimension}", "is no resource of this host", "name it in capacity too")
    if findings:
        raise refusal(findings)
    return HostSpec(
        name=name,
        pool="default" if said.pool is UNSET else said.pool,
        address=said.address or "",
        capacity=capacity,
        overcommit=said.overcommit or {},
        reserved=said.reserved or {},
        labels=said.labels or {},
        zone=said.zone or "",
        rack=said.rack or "",
        model=said.model or "",
        dedicated=said.dedicated or False,
    )


def _with_quota(capacity: dict[str, int], quota: int | UnsetType, place: str, findings: Findings) -> dict[str, int]:
    if quota is UNSET:
        return capacity
    if capacity.get(VMS, quota) != quota:
        findings.add(f"{place}/max_vms", f"is {quota}, but capacity.vms is {capacity[VMS]}", "give one of them")
    return {**capacity, VMS: quota}


def _specs_of(batch: HostBatchIn) -> Sequence[HostSpec]:
    findings = Findings()
    seen: set[str] = set()
    for number, host in enumerate(batch.items):
        if host.name in seen:
            findings.add(f"/items/{number}/name", "stands twice in this request", "leave one of them out")
            break
        seen.add(host.name)
    if findings:
        raise refusal(findings)
    return [spec_of(host, name=host.name, place=f"/items/{number}") for number, host in enumerate(batch.items)]


def patched(spec: HostSpec, patch: HostPatch) -> HostSpec:
    """The host as it is said to be after the patch; refused when that is no host."""
    said: dict[str, Any] = {}
    for field in HostSpec.__struct_fields__:
        old, new = getattr(spec, field), getattr(patch, field)
        if new is UNSET:
            said[field] = old
        elif isinstance(new, dict):
            said[field] = _merged(old, new)
        elif new is not None:
            said[field] = new
    if patch.max_vms is None and patch.capacity is not None:
        said["capacity"] = {name: amount for name, amount in said["capacity"].items() if name != VMS}
    elif isinstance(patch.max_vms, int):
        said["max_vms"] = patch.max_vms
        if not (isinstance(patch.capacity, dict) and VMS in patch.capacity):
            said["capacity"] = {**said.get("capacity", {}), VMS: patch.max_vms}
    return spec_of(take(said, HostSaid), name=spec.name)


def _merged(old: Mapping[str, V], new: Mapping[str, V | None]) -> dict[str, V]:
    return {key: value for key, value in {**old, **new}.items() if value is not None}


# ── what is answered ──────────────────────────────────────────────────────────────────────────────


def host_out(host: Host) -> HostOut:
    spec = host.spec
    return HostOut(
        name=spec.name,
        pool=spec.pool,
        address=spec.address,
        capacity=spec.capacity,
        overcommit=spec.overcommit,
        reserved=spec.reserved,
        labels=spec.labels,
        zone=spec.zone,
        rack=spec.rack,
        model=spec.model,
        dedicated=spec.dedicated,
        max_vms=spec.capacity.get(VMS),
        cordoned=host.cordoned,
        schedulable=host.is_schedulable,
        carries_virtflow=host.carries_virtflow,
        source=host.source,
        foreign=host.foreign,
        missing_since=time_or_none(host.missing_since_ms),
        total=dict(host.total),
        allocatable=dict(host.allocatable),
        used=dict(host.used),
        free=host.free,
        instances=host.instances,
        version=host.version,
        created_at=time_text(host.created_ms),
        updated_at=time_text(host.updated_ms),
    )


def _shown(host: Host) -> Rendered:
    return ok(host_out(host), etag(host.version))


def _created(host: Host) -> Rendered:
    return ok(host_out(host), etag(host.version), ("location", f"/v1/hosts/{host.name}"), status=201)


def _created_first(rows: list[Host]) -> Rendered:
    return _created(rows[0])


def _created_all(rows: list[Host]) -> Rendered:
    return 201, encode(HostsOut(items=[host_out(host) for host in rows])), JSON_TYPE


# ── the calls ─────────────────────────────────────────────────────────────────────────────────────

EXAMPLE = {
    "name": "bm-001",
    "pool": "ai",
    "address": "10.0.0.1",
    "capacity": {"cpu": 64000, "memory": 262144, "disk": 2000, "gpu": 8},
    "labels": {"gpu": "a100"},
    "zone": "dc-1",
}


@hosts.post("/v1/hosts", body=HostIn, answers={201: HostOut}, refusals=(409,), example=EXAMPLE)
async def register_host(call: Call[HostIn, NoQuery]) -> Rendered:
    """Register a host."""
    spec = spec_of(call.body, name=call.body.name)
    receipt = call.receipt(_created_first)
    rows = await call.house.hosts.register([spec], actor=call.actor, receipt=receipt)
    return answer(receipt, _created_first, rows)


@hosts.post("/v1/hosts/batch", body=HostBatchIn, answers={201: HostsOut}, refusals=(409,), example={"items": [EXAMPLE]})
async def register_hosts(call: Call[HostBatchIn, NoQuery]) -> Rendered:
    """Register many hosts, all or none."""
    receipt = call.receipt(_created_all)
    rows = await call.house.hosts.register(_specs_of(call.body), actor=call.actor, receipt=receipt)
    return answer(receipt, _created_all, rows)


@hosts.get("/v1/hosts", query=HostQuery, answers={200: HostPage})
async def list_hosts(call: Call[None, HostQuery]) -> Rendered:
    """List hosts."""
    query = call.query
    after = cursor_key("h", query).decode("latin-1")
    if after and not is_name(after):
        raise bad_cursor()
    where = HostFilter(
        pool=given(query.pool),
        zone=given(query.zone),
        labels=tuple(sorted(label_pairs(query.label or []).items())),
        cordoned=given(query.cordoned),
        missing=given(query.missing),
        source=Source(query.source) if query.source else None,
    )
    rows = await call.house.hosts.list(where, after=after, limit=query.count + 1)
    page, following = cut(rows, query.count, "h", lambda host: host.name.encode())
    inventory = inventories_out(call.house.inventories.report())
    return ok(HostPage(items=[host_out(host) for host in page], next=following, inventory=inventory))


def label_pairs(texts: Sequence[str]) -> dict[str, str]:
    """key=value, each key once."""
    labels: dict[str, str] = {}
    for text in texts:
        key, _, value = text.partition("=")
        if key in labels:
            findings = Findings()
            findings.add("?label", f"asks for two values of {key}", "no host has both")
            raise refusal(findings)
        labels[key] = value
    return labels


def _name(call: Call[Any, Any]) -> str:
    """The name in the path. What is no name at all is not asked of the database."""
    name = call.path["name"]
    if not is_name(name):
        raise NotFound("no host is called that", code="host_not_found", remedy=f"a name is {NAME_RULE}")
    return name


@hosts.get("/v1/hosts/{name}", answers={200: HostOut})
async def get_host(call: Call[None, NoQuery]) -> Rendered:
    """Read a host."""
    return _shown(await call.house.hosts.get(_name(call)))


@hosts.put("/v1/hosts/{name}", body=HostSaid, answers={200: HostOut, 201: HostOut}, refusals=(409,), example=EXAMPLE)
async def replace_host(call: Call[HostSaid, NoQuery]) -> Rendered:
    """Replace what is said about a host, or register it."""
    name = call.path["name"]
    if not is_name(name):
        findings = Findings()
        findings.add("/name", f"the name in the path must be {NAME_RULE}")
        raise refusal(findings)
    spec = spec_of(call.body, name=name)
    version = await call.version(lambda: call.house.hosts.get(name))
    host, created = await call.house.hosts.replace(spec, expected_version=version, actor=call.actor)
    return _created(host) if created else _shown(host)


@hosts.patch(
    "/v1/hosts/{name}",
    body=HostPatch,
    types=("application/json", "application/merge-patch+json"),
    answers={200: HostOut},
    refusals=(409,),
    example={"zone": "dc-2", "labels": {"gpu": None}},
)
async def change_host(call: Call[HostPatch, NoQuery]) -> Rendered:
    """Change some of what is said about a host."""
    name = _name(call)
    if call.body.name is not UNSET and call.body.name != name:
        findings = Findings()
        findings.add("/name", "cannot be changed", "register a new host")
        raise refusal(findings)
    host = await call.house.hosts.change(
        name, lambda spec: patched(spec, call.body), expected_version=await call.version(), actor=call.actor
    )
    return _shown(host)


@hosts.delete("/v1/hosts/{name}", answers={204: None}, refusals=(409,))
async def delete_host(call: Call[None, NoQuery]) -> Rendered:
    """Forget a host that carries nothing."""
    await call.house.hosts.delete(_name(call), expected_version=await call.version(), actor=call.actor)
    return nothing()


@hosts.post("/v1/hosts/{name}/cordon", answers={200: HostOut}, has_version=True, refusals=(409,))
async def cordon_host(call: Call[None, NoQuery]) -> Rendered:
    """Let a host take no new instances."""
    return await _cordon(call, cordoned=True)


@hosts.post("/v1/hosts/{name}/uncordon", answers={200: HostOut}, has_version=True, refusals=(409,))
async def uncordon_host(call: Call[None, NoQuery]) -> Rendered:
    """Let a host take instances again."""
    return await _cordon(call, cordoned=False)


async def _cordon(call: Call[None, NoQuery], *, cordoned: bool) -> Rendered:
    receipt = call.receipt(_shown)
    host = await call.house.hosts.cordon(
        _name(call),
        cordoned=cordoned,
        expected_version=await call.version(),
        actor=call.actor,
        receipt=receipt,
    )
    return answer(receipt, _shown, host)
