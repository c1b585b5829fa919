"""Real processes whose database hangs, whose files run out, and that are told to stop."""

import asyncio
import os
import resource
import time
from pathlib import Path

import httpx
import pytest

from virtflow.testing.cluster import cluster
from virtflow.testing.postgres import PostgresServer
from virtflow.testing.proxy import proxy
from virtflow.testing.witness import Server, fsck, register_hosts, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.service("postgresql")]


async def test_a_database_that_hangs_costs_answers_and_nothing_else(postgresql: PostgresServer, tmp_path: Path) -> None:
    """F10 with a real process: 503 with Retry-After within the deadline, and it comes back by itself."""
    name = f"hangs_{os.urandom(4).hex()}"
    url = await postgresql.create_database(name)
    async with proxy(postgresql.port) as between:
        with cluster(tmp_path, database_url=postgresql.url(name, port=between.port)) as them:
            process = them.add("one")
            await asyncio.to_thread(them.start)
            await asyncio.to_thread(them.wait_for_leader)
            await asyncio.to_thread(register_hosts, process.url, hosts=2, cores=500)
            between.stall()
            async with httpx.AsyncClient(timeout=30, base_url=process.url) as http:
                began_s = time.monotonic()
                asked = [http.post("/v1/vms", json={"resources": {"cpu": 1000}}) for _ in range(30)]
                asked += [http.get("/v1/hosts/bm-000"), http.get("/readyz"), http.get("/healthz")]
                answers = await asyncio.gather(*asked)
                assert time.monotonic() - began_s < 10.5 + 0.5 + 5  # deadline, margin, a busy machine
                assert {answer.status_code for answer in answers} == {503}
                assert all(answer.headers["retry-after"] for answer in answers[:31])
                assert (await http.get("/metrics")).status_code == 200
                between.flow()
                async with asyncio.timeout(20):
                    while (answer := await http.post("/v1/vms", json={"resources": {"cpu": 1000}})).status_code == 503:
                        await asyncio.sleep(0.1)
                assert answer.status_code == 202
            between.stall()  # and whoever is told to stop while it hangs is gone in time
            began_s = time.monotonic()
            assert await asyncio.to_thread(process.terminate) in (0, 75)
            assert time.monotonic() - began_s < 10 + 2  # a busy machine
    assert fsck(url)["violations_total"] == 0


def test_a_process_without_files_left_sheds_and_recovers(tmp_path: Path) -> None:
    """F5: whatever is answered is 503 or right; with files again everything works without a restart."""
    server = Server(database_url=f"sqlite:///{tmp_path}/virtflow.db", log=tmp_path / "server.log")
    with running(server):
        register_hosts(server.url, hosts=2, cores=5_000)
        assert server.process is not None
        pid = server.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        in_use = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use + 6, before[1]))
        statuses = asyncio.run(crowd(server.url, 60))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert statuses <= {202, 503, 0}, server.log_tail()
        assert 0 in statuses or 503 in statuses
        assert asyncio.run(crowd(server.url, 60)) == {202}
        assert httpx.get(f"{server.url}/healthz").json()["ok"] is True


async def crowd(url: str, size: int) -> set[int]:
    """What so many clients at once are answered; 0 where the line was closed."""

    async def ask() -> int:
        async with httpx.AsyncClient(timeout=10) as http:
            try:
                return (await http.post(f"{url}/v1/vms", json={"resources": {"cpu": 1000}})).status_code
            except httpx.TransportError:
                return 0

    return set(await asyncio.gather(*(ask() for _ in range(size))))
