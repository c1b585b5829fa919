"""The fleet and the orders that the service is measured with: one pool, three sizes of host, eight shapes of VM."""

import json
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

POOL = "bench"
SEED = 1
GIB = 1024
#: cores, memory in GiB, disk in GiB: on average 192 cores, so that 100 VMs of the mix fill about 70 %
_SIZES = ((128, 512, 5_000), (192, 768, 7_000), (256, 1024, 9_000))


class Kind(NamedTuple):
    """One shape, and how many of a hundred orders are of it."""

    share: int
    cpu: int
    memory: int
    disk: int

    @property
    def resources(self) -> dict[str, int]:
        return {"cpu": self.cpu, "memory": self.memory, "disk": self.disk}


MIX = (
    Kind(20, 500, 1 * GIB, 10),
    Kind(10, 500, 2 * GIB, 10),
    Kind(25, 1000, 2 * GIB, 20),
    Kind(15, 1000, 4 * GIB, 20),
    Kind(15, 2000, 4 * GIB, 40),
    Kind(5, 2000, 8 * GIB, 40),
    Kind(7, 4000, 8 * GIB, 80),
    Kind(3, 4000, 16 * GIB, 80),
)
#: the old API counts whole cores
WHOLE_CORES = tuple(kind for kind in MIX if kind.cpu % 1000 == 0)


class Request(NamedTuple):
    """A body, and what it asks for in all: so that it can be checked what was given."""

    body: bytes
    vms: int
    resources: dict[str, int]


def hosts(count: int) -> list[dict[str, object]]:
    """As POST /v1/hosts/batch takes them."""
    return [_host(number) for number in range(count)]


def _host(number: int) -> dict[str, object]:
    cores, memory_gib, disk_gib = _SIZES[number % len(_SIZES)]
    return {
        "name": f"bench-{number + 1:06d}",
        "pool": POOL,
        "address": f"10.{number // 65536}.{number // 256 % 256}.{number % 256}",
        "zone": f"z{number // 20 % 3 + 1}",
        "capacity": {"cpu": cores * 1000, "memory": memory_gib * GIB, "disk": disk_gib},
    }


def singles(count: int, *, seed: int = SEED) -> list[Request]:
    """Bodies of POST /v1/vms."""
    return [_request({"pool": POOL, "resources": kind.resources}, [kind]) for kind in _draw(MIX, count, seed)]


def schedules(count: int, *, seed: int = SEED) -> list[Request]:
    """Bodies of POST /schedule."""
    return [_request(_old_order(kind), [kind]) for kind in _draw(WHOLE_CORES, count, seed)]


def batches(count: int, *, size: int, one_shape: bool = False, seed: int = SEED) -> list[Request]:
    """Bodies of POST /v1/vms/batch, the shapes in no order (or all of one shape)."""
    made = []
    for number in range(count):
        kinds = [MIX[2]] * size if one_shape else _draw(MIX, size, seed + number)
        made.append(_request({"items": [{"pool": POOL, "resources": kind.resources} for kind in kinds]}, kinds))
    return made


def _old_order(kind: Kind) -> dict[str, object]:
    return {
        "requested_cpu": kind.cpu // 1000,
        "requested_memory": kind.memory,
        "requested_disk": kind.disk,
        "requested_pool": POOL,
        "dedicated": False,
    }


def _draw(kinds: Sequence[Kind], count: int, seed: int) -> list[Kind]:
    return Random(seed).choices(kinds, weights=[kind.share for kind in kinds], k=count)


def _request(document: object, kinds: Sequence[Kind]) -> Request:
    totals = {name: sum(kind.resources[name] for kind in kinds) for name in ("cpu", "memory", "disk")}
    return Request(json.dumps(document, separators=(",", ":")).encode(), len(kinds), totals | {"vms": len(kinds)})
