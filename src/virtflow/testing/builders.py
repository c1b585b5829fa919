"""Hosts, shapes, requests and fleets in one line, for tests and benchmarks."""

from collections.abc import Iterable, Mapping

from virtflow.engine.fleet import Fleet
from virtflow.model.host import Host, HostSpec
from virtflow.model.plan import Request
from virtflow.model.pool import Pool, PoolSpec
from virtflow.model.shape import Dedicated, Shape
from virtflow.model.shape import shape as make_shape

CORE = 1000
GIB = 1024


def host(
    name: str,
    *,
    id: int | None = None,  # noqa: A002  # the field's own name
    cores: float = 16,
    memory_gib: float = 64,
    disk_gib: int = 1000,
    gpus: int = 0,
    vms: int = 100,
    custom: Mapping[str, int] | None = None,
    used: Mapping[str, int] | None = None,
    instances: int = 0,
    pool: str = "default",
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    dedicated: bool = False,
    cordoned: bool = False,
    missing: bool = False,
    carries_virtflow: bool = False,
) -> Host:
    """A host as the database has it. Its id follows from its name unless given."""
    room = {
        "cpu": int(cores * CORE),
        "memory": int(memory_gib * GIB),
        "disk": disk_gib,
        "gpu": gpus,
        "vms": vms,
        **(custom or {}),
    }
    return Host(
        id=id if id is not None else id_of(name),
        spec=HostSpec(name=name, pool=pool, zone=zone, labels=dict(labels or {}), dedicated=dedicated, capacity=room),
        cordoned=cordoned,
        missing_since_ms=1 if missing else None,
        carries_virtflow=carries_virtflow,
        total=room,
        allocatable=room,
        used=dict(used or {}),
        instances=instances,
    )


def id_of(name: str) -> int:
    """A stable id for a name: equal names, equal ids, and far apart otherwise."""
    return int.from_bytes(name.encode()[-7:], "big")


def pool(name: str, *, strategy: str = "", accepts_work: bool = True) -> Pool:
    return Pool(spec=PoolSpec(name=name, strategy=strategy, accepts_work=accepts_work))


def shape(
    *,
    cores: float = 1,
    memory_gib: float = 1,
    disk_gib: int = 0,
    gpus: int = 0,
    custom: Mapping[str, int] | None = None,
    pool: str = "default",
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    dedicated: Dedicated = Dedicated.ALLOWED,
    strategy: str = "",
    weights: Mapping[str, float] | None = None,
) -> Shape:
    wanted = {"cpu": int(cores * CORE), "memory": int(memory_gib * GIB), "disk": disk_gib, "gpu": gpus}
    return make_shape(
        {**wanted, **(custom or {})},
        pool=pool,
        zone=zone,
        labels=dict(labels or {}),
        dedicated=dedicated,
        strategy=strategy,
        weights=dict(weights or {}),
    )


def requests(count: int, wanted: Shape, *, gang: bytes | None = None, start: int = 0) -> list[Request]:
    """So many requests of one shape, keyed 16 bytes each, counting from `start`."""
    return [Request((start + number).to_bytes(16, "big"), wanted, gang) for number in range(count)]


def fleet(
    hosts: int | Iterable[Host] = 3,
    *,
    free_cores: float = 8,
    free_memory_gib: float = 64,
    default_strategy: str = "least_loaded",
    pools: Iterable[Pool] = (),
    compiled: bool | None = None,
) -> Fleet:
    """A fleet of these hosts, or of so many equal empty ones called bm-001, bm-002, …"""
    if isinstance(hosts, int):
        hosts = [host(f"bm-{number + 1:03}", cores=free_cores, memory_gib=free_memory_gib) for number in range(hosts)]
    made = Fleet(default_strategy, compiled=compiled)
    for one in pools:
        made.put_pool(one)
    made.put_hosts(hosts)
    return made
