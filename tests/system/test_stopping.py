"""Real processes that are told to stop, one after the other, while clients go on: nobody loses a request."""

import asyncio
import itertools
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from virtflow.testing.cluster import Cluster, Process, cluster
from virtflow.testing.postgres import PostgresServer
from virtflow.testing.proxy import proxy
from virtflow.testing.witness import Server, Witness, fsck, register_hosts, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.service("postgresql")]

CLIENTS = 4


class Client:
    """A client as a load balancer's pool of connections makes one: kept connections, and one more try elsewhere when
    the line was closed before an answer."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self._first = itertools.count()
        self.answered = 0
        self.tries_again = 0
        self.failed: list[str] = []
        self.made: set[str] = set()

    async def work(self, http: httpx.AsyncClient, who: int, stop: asyncio.Event) -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            name = f"vm-{who}-{number}"
            body = {"resources": {"cpu": 1000, "memory": 1024}, "name": name}
            answer = await self._post(http, body, key=name)
            if answer is None or answer.status_code != 202:
                self.failed.append(f"{name}: {answer and (answer.status_code, answer.text)}")
            else:
                self.answered += 1
                self.made.add(name)

    async def _post(self, http: httpx.AsyncClient, body: Any, *, key: str) -> httpx.Response | None:
        first = next(self._first)
        for again, _ in enumerate(self._urls):
            url = self._urls[(first + again) % len(self._urls)]
            try:
                return await http.post(f"{url}/v1/vms", json=body, headers={"Idempotency-Key": key})
            except (httpx.NetworkError, httpx.RemoteProtocolError):  # nobody there, or the line was closed
                self.tries_again += 1
        return None


@pytest.fixture
def three(postgresql: PostgresServer, tmp_path: Path) -> Iterator[Cluster]:
    url = asyncio.run(postgresql.create_database(f"stopping_{os.urandom(4).hex()}"))
    with cluster(tmp_path, database_url=url, lease_s="1", drain_s="0.5") as them:
        for name in ("one", "two", "three"):
            them.add(name)
        them.start()
        them.wait_for_leader()
        register_hosts(them["one"].url, hosts=20, cores=5_000)
        yield them


def told_to_stop(process: Process) -> float:
    """Seconds until it was gone, in order."""
    began_s = time.monotonic()
    assert process.terminate() == 0, process.log_tail()
    return time.monotonic() - began_s


async def test_a_rolling_restart_under_load_fails_no_request(three: Cluster) -> None:
    client, stop = Client(three.urls), asyncio.Event()
    async with httpx.AsyncClient(timeout=15, limits=httpx.Limits(max_keepalive_connections=50)) as http:
        workers = [asyncio.create_task(client.work(http, who, stop)) for who in range(CLIENTS)]
        taken_s = []
        for process in three:
            before = client.answered
            while client.answered < before + 50:
                await asyncio.sleep(0.02)
            taken_s.append(await asyncio.to_thread(told_to_stop, process))
            await asyncio.to_thread(process.start)
            await asyncio.to_thread(process.wait_until_ready)
        stop.set()
        await asyncio.gather(*workers)
        await asyncio.to_thread(three.wait_for_leader)
        found = await Witness(three.urls[0]).found(http)
    assert client.failed == []
    assert set(found) == client.made
    assert max(taken_s) < 10
    assert fsck(three["one"].settings["database_url"])["violations_total"] == 0
    print(f"{client.answered} answered, {client.tries_again} tried again elsewhere, stops: {taken_s}")


async def test_a_leader_told_to_stop_hands_over_without_waiting_for_its_lease(three: Cluster) -> None:
    leader = await asyncio.to_thread(three.wait_for_leader)
    leader.terminate()
    assert "leader.began" in (await asyncio.to_thread(three.wait_for_leader, other_than=leader)).log_text()
    assert "stopped" in leader.log_text()


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
