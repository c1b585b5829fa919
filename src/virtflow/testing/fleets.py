"""Simulated fleets and orders: the same numbers give the same fleet, on every machine.

A longer fleet begins with the shorter one, so that a fleet grows without changing its hosts.
"""

from collections.abc import AsyncIterator
from copy import deepcopy
from random import Random
from typing import NamedTuple

from virtflow.inventory import Fetched, FoundHost, no_knocks
from virtflow.model.host import HostSpec, Source
from virtflow.model.resources import CPU, DISK, GPU, MEMORY, VMS

SEED = 1
ZONES = ("z1", "z2", "z3")
HOSTS_PER_RACK = 20
_ADDRESSES_PER_BLOCK = 254


class Profile(NamedTuple):
    cores: int
    memory_mib: int
    disk_gib: int
    model: str
    gpus: int = 0
    gpu: str = ""


SMALL = Profile(8, 16_384, 256, "HPE ProLiant DL20 Gen10")
MIDDLE = Profile(16, 65_536, 512, "HPE ProLiant DL360 Gen10")
LARGE = Profile(32, 131_072, 1024, "Dell PowerEdge R740")
GPU_LARGE = Profile(32, 131_072, 1024, "HPE ProLiant DL380a Gen11", gpus=4, gpu="a100")
GPU_MIDDLE = Profile(16, 65_536, 512, "Dell PowerEdge R760xa", gpus=2, gpu="l40s")

#: Ten hosts in the order in which they are bought, again and again: pool and profile.
_ROUND = (
    ("general", SMALL),
    ("general", MIDDLE),
    ("ai", GPU_LARGE),
    ("general", LARGE),
    ("storage", MIDDLE),
    ("general", MIDDLE),
    ("ai", GPU_MIDDLE),
    ("general", SMALL),
    ("storage", LARGE),
    ("general", LARGE),
)
#: How often a host of the pool is a dedicated one.
_DEDICATED_SHARE = {"general": 0.05, "ai": 0.5, "storage": 0.1}
_DISK_FACTOR = {"storage": 16}
_VMS_PER_CORE = 4


def simulated_fleet(hosts: int = 60, seed: int = SEED) -> list[HostSpec]:
    chance = Random(seed)
    return [_host(number, dedicated_draw=chance.random()) for number in range(hosts)]


def _host(number: int, *, dedicated_draw: float) -> HostSpec:
    pool, profile = _ROUND[number % len(_ROUND)]
    rack = number // HOSTS_PER_RACK
    zone = ZONES[rack % len(ZONES)]
    return HostSpec(
        name=f"bm-{number + 1:03d}",
        pool=pool,
        address=_address(number),
        capacity=_capacity(profile, disk_factor=_DISK_FACTOR.get(pool, 1)),
        labels={"gpu": profile.gpu} if profile.gpu else {},
        zone=zone,
        rack=f"{zone}-r{rack // len(ZONES) + 1:02d}",
        model=profile.model,
        dedicated=dedicated_draw < _DEDICATED_SHARE[pool],
    )


def _capacity(profile: Profile, *, disk_factor: int) -> dict[str, int]:
    amounts = {
        CPU: profile.cores * 1000,
        MEMORY: profile.memory_mib,
        DISK: profile.disk_gib * disk_factor,
        GPU: profile.gpus,
        VMS: profile.cores * _VMS_PER_CORE,
    }
    return {name: amount for name, amount in amounts.items() if amount}


def _address(number: int) -> str:
    """10.0.0.1 for the first; .0 and .255 are nobody's."""
    block, last = divmod(number, _ADDRESSES_PER_BLOCK)
    return f"10.{block // 256}.{block % 256}.{last + 1}"


class Mix(NamedTuple):
    """One kind of order, and how many of a hundred orders are of it."""

    share: int
    order: dict[str, object]


_MIX = (
    Mix(40, {"pool": "general", "resources": {"cpu": 1000, "memory": 2048, "disk": 10}}),
    Mix(30, {"pool": "general", "resources": {"cpu": 2000, "memory": 4096, "disk": 20}}),
    Mix(12, {"pool": "general", "resources": {"cpu": 4000, "memory": 8192, "disk": 40}}),
    Mix(6, {"pool": "storage", "resources": {"cpu": 2000, "memory": 8192, "disk": 500}}),
    Mix(5, {"pool": "ai", "resources": {"cpu": 4000, "memory": 16_384, "gpu": 1}, "labels": {"gpu": "l40s"}}),
    Mix(4, {"pool": "ai", "resources": {"cpu": 8000, "memory": 16_384}, "dedicated": "required"}),
    Mix(3, {"pool": "ai", "resources": {"cpu": 8000, "memory": 32_768, "gpu": 1}, "labels": {"gpu": "a100"}}),
)


def simulated_orders(n: int, seed: int = SEED) -> list[dict[str, object]]:
    """Requests as POST /v1/vms takes them. About seven per host fit the fleet of the same size."""
    chance = Random(seed)
    chosen = chance.choices(_MIX, weights=[mix.share for mix in _MIX], k=n)
    return [{"name": f"sim-{number:06d}", **deepcopy(mix.order)} for number, mix in enumerate(chosen, start=1)]


class SimulatedInventory:
    """An inventory of hosts that exist nowhere. Never beside real ones."""

    source = Source.SIMULATED

    def __init__(self, hosts: int = 60, seed: int = SEED) -> None:
        self.location = f"{hosts} simulated hosts, seed {seed}"
        self._fetched = Fetched(hosts=tuple(FoundHost(spec) for spec in simulated_fleet(hosts, seed)))

    async def fetch(self) -> Fetched:
        return self._fetched

    def changes(self) -> AsyncIterator[None]:
        return no_knocks()
