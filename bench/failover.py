"""The leader is killed: how long until the next one has committed a placement."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import numpy as np

from bench import world
from bench.http import WrongCount
from bench.postgres import postgresql_in
from bench.restart import fill
from virtflow.testing.cluster import Cluster, Process, cluster
from virtflow.testing.witness import fsck

#: what is started anew each time: one leads, one takes over, one has just come back
SCHEDULERS = 3
LEASE_S = 2
POLL_S = 0.002
WITHIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedOver:
    """Leaders that were killed, and their successors."""

    hosts: int
    lease_s: float
    #: from `kill -9` to the moment at which a client sees a VM placed that was asked for after it, each time
    taken_s: Sequence[float]

    def quantile_s(self, part: float) -> float:
        return float(np.quantile(self.taken_s, part, method="higher"))

    def document(self) -> dict[str, object]:
        return {
            **asdict(self),
            "p50_s": self.quantile_s(0.5),
            "p99_s": self.quantile_s(0.99),
            "max_s": max(self.taken_s),
        }


def measure(folder: Path, *, hosts: int, kills: int) -> FailedOver:
    """Real processes on a durable PostgreSQL: an API, and schedulers whose leader is killed again and again."""
    folder.mkdir()
    folder.chmod(0o755)
    with postgresql_in(folder) as url:
        asyncio.run(fill(url, hosts=hosts, vms=0))
        with cluster(folder / "processes", database_url=url, lease_s=str(LEASE_S)) as them:
            api = them.add("api", role="api")
            for number in range(SCHEDULERS):
                them.add(f"scheduler-{number}", role="scheduler")
            them.start()
            with closing(httpx.Client(base_url=api.url, timeout=WITHIN_S)) as client:
                taken_s = [_kill_one(them, client, name=f"failover-{number}") for number in range(kills)]
                _check(client, kills)
        if violations := fsck(url)["violations_total"]:
            raise WrongCount(f"virtflow fsck found {violations} violations after {kills} kills")
    return FailedOver(hosts=hosts, lease_s=LEASE_S, taken_s=taken_s)


def _kill_one(them: Cluster, client: httpx.Client, *, name: str) -> float:
    leader = them.wait_for_leader()
    leader.kill()
    killed_s = time.perf_counter()
    order = {"name": name, "pool": world.POOL, "resources": world.MIX[2].resources}
    client.post("/v1/vms", json=order).raise_for_status()
    while client.get(f"/v1/vms/{name}").raise_for_status().json()["host"] is None:
        if time.perf_counter() > killed_s + WITHIN_S:
            raise WrongCount(f"nobody placed {name} within {WITHIN_S:g} s:\n{them.log_tails()}")
        time.sleep(POLL_S)
    taken_s = time.perf_counter() - killed_s
    _bring_back(leader)
    return taken_s


def _bring_back(process: Process) -> None:
    process.start()
    process.wait_until_ready()


def _check(client: httpx.Client, kills: int) -> None:
    """What was seen placed is there, each once."""
    placed = client.get("/v1/vms", params={"placed": "true", "limit": 1000}).raise_for_status().json()["items"]
    names = sorted(vm["name"] for vm in placed)
    if names != sorted(f"failover-{number}" for number in range(kills)):
        raise WrongCount(f"{kills} VMs were seen placed after kills, {len(names)} are there")
