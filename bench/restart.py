"""After `kill -9`: how long until the next VM is placed, and what the process then holds in memory."""

import asyncio
import http.client
import json
import logging
import random
import statistics
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

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
class Restarted:
    """Processes that were killed, and their successors."""

    database: str
    hosts: int
    vms: int
    fill_s: float
    #: from the start of the process to the acknowledged placement, each time
    first_placement_s: Sequence[float]
    #: what a fresh process holds: of an empty database, with the hosts, with the hosts and their VMs
    resident_bytes: tuple[int, int, int]

    @property
    def median_s(self) -> float:
        return statistics.median(self.first_placement_s)

    @property
    def bytes_per_host(self) -> float:
        nothing, with_hosts, _ = self.resident_bytes
        return max(0.0, (with_hosts - nothing) / self.hosts)

    @property
    def bytes_per_vm(self) -> float:
        _, with_hosts, with_vms = self.resident_bytes
        return max(0.0, (with_vms - with_hosts) / self.vms)

    def document(self) -> dict[str, object]:
        figures = {"median_s": self.median_s, "per_host": self.bytes_per_host, "per_vm": self.bytes_per_vm}
        return {**asdict(self), **figures}


def measure(folder: Path, *, hosts: int, vms: int, database: str = SQLITE, starts: int = STARTS) -> Restarted:
    """Fill a database in steps; after each kill the server, start it, and see what it holds."""
    folder.mkdir()
    folder.chmod(0o755)
    with database_in(database, folder) as url:
        server = Server(url, folder=folder)
        try:
            _, nothing = _restart(server, place=False)
            asyncio.run(fill(url, hosts=hosts, vms=0))
            _, with_hosts = _restart(server, place=True)
            started_s = time.perf_counter()
            asyncio.run(fill(url, hosts=0, vms=vms))
            fill_s = time.perf_counter() - started_s
            # after a clean end nothing is checked at the start, so this one has read only what it keeps
            _, with_vms = _restart(server, place=True)
            taken_s = [_restart(server, place=True)[0] for _ in range(starts)]
        finally:
            server.stop()
    return Restarted(
        database=database,
        hosts=hosts,
        vms=vms,
        fill_s=fill_s,
        first_placement_s=taken_s,
        resident_bytes=(nothing, with_hosts, with_vms),
    )


def _restart(server: Server, *, place: bool) -> tuple[float, int]:
    """Seconds from the start to the first placement (or until it is ready), and what it held then. Killed at last."""
    started_s = server.launch()
    if place:
        _first_placement(server)
    else:
        server.wait_until_ready()
    taken_s, resident = time.perf_counter() - started_s, server.resident_bytes()
    server.kill()
    return taken_s, resident


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


async def fill(url: str, *, hosts: int, vms: int) -> None:
    """Through the same use cases as the API, without HTTP."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))  # a line for each VM
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
