"""Leaders that are killed, stopped and cut off: somebody else leads, and nothing is lost, doubled or taken twice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from virtflow.testing.cluster import Cluster, Process, cluster
from virtflow.testing.postgres import PostgresServer
from virtflow.testing.proxy import Proxy, proxy
from virtflow.testing.witness import Witness, fsck, register_hosts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.service("postgresql"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("failover"),
]

LEASE_S = 1.5
WORKERS = 2


class Trio:
    """An API process, two schedulers, and a proxy between each of them and the database."""

    def __init__(self, them: Cluster, proxies: dict[str, Proxy], witness: Witness) -> None:
        self.them = them
        self.proxies = proxies
        self.witness = witness

    async def leader(self, *, other_than: Process | None = None) -> Process:
        return await asyncio.to_thread(self.them.wait_for_leader, other_than=other_than)

    async def more_answers(self, count: int = 10) -> None:
        """Clients go on being answered, whoever leads."""
        enough = self.witness.answers + count
        async with asyncio.timeout(60):
            while self.witness.answers < enough:
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def trio_at(url: str, port: int, directory: Path) -> AsyncIterator[Trio]:
    async with contextlib.AsyncExitStack() as stack:
        proxies = {name: await stack.enter_async_context(proxy(port)) for name in ("one", "two")}
        them = stack.enter_context(cluster(directory, database_url=url, lease_s=str(LEASE_S)))
        api = them.add("api", role="api")
        for name, between in proxies.items():
            them.add(name, role="scheduler", database_url=url.replace(f":{port}/", f":{between.port}/"))
        await asyncio.to_thread(them.start)
        await asyncio.to_thread(register_hosts, api.url, hosts=20, cores=500)
        yield Trio(them, proxies, Witness(api.url))


async def is_killed(trio: Trio) -> None:
    leader = await trio.leader()
    await asyncio.to_thread(leader.kill)
    await trio.leader(other_than=leader)
    await trio.more_answers()
    await asyncio.to_thread(leader.restart)


async def is_stopped_past_its_lease_and_wakes_up(trio: Trio) -> None:
    leader = await trio.leader()
    leader.stop()
    await trio.leader(other_than=leader)
    await trio.more_answers()
    leader.cont()
    await asyncio.to_thread(leader.wait_until_ready)
    await trio.leader()  # one, and no other
    await trio.more_answers()


async def is_cut_off_from_the_database(trio: Trio) -> None:
    leader = await trio.leader()
    trio.proxies[leader.name].stall()
    await trio.leader(other_than=leader)
    await trio.more_answers()
    trio.proxies[leader.name].flow()
    trio.proxies[leader.name].cut()
    await asyncio.to_thread(leader.wait_until_ready)


#: `make chaos` does the same for longer, with more faults
FAULTS = (is_killed, is_stopped_past_its_lease_and_wakes_up, is_cut_off_from_the_database)


async def test_nothing_is_lost_or_doubled_when_leaders_are_killed_stopped_and_cut_off(
    tmp_path: Path, postgresql: PostgresServer, new_postgresql_url: str
) -> None:
    async with trio_at(new_postgresql_url, postgresql.port, tmp_path) as trio:
        witness, stop = trio.witness, asyncio.Event()
        async with httpx.AsyncClient(timeout=10) as client:
            workers = [asyncio.create_task(witness.work(client, stop)) for _ in range(WORKERS)]
            for fault in FAULTS:
                await trio.more_answers()
                await fault(trio)
            stop.set()
            await asyncio.gather(*workers)
            await witness.check(client)
            await witness.check_replays(client, most=30)
            await everything_is_placed(client, witness.url)
    report = await asyncio.to_thread(fsck, new_postgresql_url)
    assert report["violations_total"] == 0


async def everything_is_placed(client: httpx.AsyncClient, url: str) -> None:
    """There is room for all, so nobody waits for long."""
    async with asyncio.timeout(60):
        while (await client.get(f"{url}/v1/vms?placed=false&limit=1")).json()["items"]:
            await asyncio.sleep(0.05)


async def test_who_may_not_vote_and_should_does_not_start_and_says_why(tmp_path: Path, new_postgresql_url: str) -> None:
    outside_of_a_pod = {
        "election": "kubernetes",
        "kubernetes_url": "http://127.0.0.1:1",
        "kubernetes_account": str(tmp_path / "nowhere"),
    }

    def told() -> None:
        with cluster(tmp_path, database_url=new_postgresql_url, **outside_of_a_pod) as them:
            one, api = them.add("one", role="scheduler"), them.add("api", role="api")
            one.start()
            assert one.wait_until_gone(within_s=60) == 78
            assert "VIRTFLOW_KUBERNETES_ACCOUNT" in one.log_text()
            assert "choose VIRTFLOW_ELECTION=database" in one.log_text()
            assert "Traceback" not in one.log_text()
            api.start()  # stands for no office
            api.wait_until_ready()

    await asyncio.to_thread(told)
