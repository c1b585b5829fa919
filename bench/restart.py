"""After `kill -9`: how long until the next VM is placed, and what the process then holds in memory."""

import asyncio
import http.client
import json
import random
import statistics
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import world
from bench.http import SQLITE, database_in
from bench.server import START_S_MAX, Server
from virtflow.config import load_config
from virtflow.control.house import House
from virtflow.control.orders import VmOrder
from virtflow.engine import strategies
from virtflow.main import build
from virtflow.model.host import HostSpec, Source
from virtflow.model.shape import shape

ORDERS_AT_ONCE = 10_000
STARTS = 3
_ORDER = {"pool": world.POOL, "resources": world.MIX[2].resources}


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A process that was killed, and its successor."""

    database: str
    hosts: int
    vms: int
    fill_s: float
    #: from the start of the process to the acknowledged placement, each time
    first_placement_s: Sequence[float]
    resident_bytes: int

    @property
    def median_s(self) -> float:
        return statistics.median(self.first_placement_s)

    def document(self) -> dict[str, object]:
        return {**asdict(self), "median_s": self.median_s}


def measure(folder: Path, *, hosts: int, vms: int, database: str = SQLITE, starts: int = STARTS) -> Restart:
    """Fill a database, then kill and start: the middle of some starts."""
    folder.mkdir()
    with database_in(database, folder) as url:
        started_s = time.perf_counter()
        asyncio.run(_fill(url, hosts=hosts, vms=vms))
        fill_s = time.perf_counter() - started_s
        server = Server(url, folder=folder)
        try:
            server.start()
            server.kill()
            taken_s = [_restart(server, place=hosts > 0, last=number == starts - 1) for number in range(starts)]
            resident = server.resident_bytes()
        finally:
            server.stop()
    return Restart(
        database=database, hosts=hosts, vms=vms, fill_s=fill_s, first_placement_s=taken_s, resident_bytes=resident
    )


def _restart(server: Server, *, place: bool, last: bool) -> float:
    started_s = server.launch()
    _first_placement(server) if place else server.wait_until_ready()
    taken_s = time.perf_counter() - started_s
    if not last:
        server.kill()
    return taken_s


def _first_placement(server: Server) -> None:
    """Asks again and again until a VM is placed."""
    body = json.dumps(_ORDER)
    end_s = time.perf_counter() + START_S_MAX
    while time.perf_counter() < end_s:
        server.check_alive()
        with suppress(OSError, http.client.HTTPException):
            with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=START_S_MAX)) as connection:
                connection.request("POST", "/v1/vms", body=body, headers={"Content-Type": "application/json"})
                answer = connection.getresponse()
                content = answer.read()
            if answer.status == 202 and json.loads(content)["host"]:
                return
            if answer.status < 500:
                raise RuntimeError(f"the first order was answered {answer.status}: {content[:300]!r}")
        time.sleep(0.002)
    raise TimeoutError(f"nothing was placed within {START_S_MAX:.0f} s: {server.last_words()}")


# ── filling ───────────────────────────────────────────────────────────────────────────────────────


async def _fill(url: str, *, hosts: int, vms: int) -> None:
    """Through the same use cases as the API, without HTTP."""
    config = load_config(environ={}, known_strategies=strategies.names(), flags={"database_url": url})
    async with build(config).running() as house:
        await _register(house, hosts)
        draw = random.Random(world.SEED)
        shapes = [shape(kind.resources, pool=world.POOL) for kind in world.MIX]
        weights = [kind.share for kind in world.MIX]
        for start in range(0, vms, ORDERS_AT_ONCE):
            chosen = draw.choices(shapes, weights, k=min(ORDERS_AT_ONCE, vms - start))
            chosen.sort(key=lambda one: one.wants)  # neighbours of one shape are decided faster
            views = await house.vms.create([VmOrder(shape=one) for one in chosen], together=False, actor="bench")
            if any(view.instance.host_id is None for view in views):
                raise RuntimeError("the fleet is too small for so many VMs")


async def _register(house: House, count: int) -> None:
    documents = world.hosts(count)
    for start in range(0, count, ORDERS_AT_ONCE):
        specs = [_spec(document) for document in documents[start : start + ORDERS_AT_ONCE]]
        await house.hosts.register(specs, source=Source.API, actor="bench")


def _spec(document: dict[str, object]) -> HostSpec:
    return HostSpec(**document)  # type: ignore[arg-type]
