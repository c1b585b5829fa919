"""`kill -9` at any moment loses no accepted task and doubles none: real processes, real files, real kills."""

import asyncio
import itertools
import random
from pathlib import Path

import httpx
import pytest

from virtflow.testing.failpoints import DELIVERY_STEPS, POINTS
from virtflow.testing.postgres import PostgresServer, postgres_server
from virtflow.testing.witness import Server, Witness, fsck, register_hosts, running

CLIENTS = 6
LANES = 2
KILLS_PER_LANE = 105
KILLS_ON_POSTGRESQL = 25
DATABASE_KILLS = 5
#: points that a request for a VM passes
ON_THE_WALK = [
    point
    for point in POINTS
    if point not in {"tx.take_fence", "tx.add_hosts", "tx.set_cordon", "tx.move_tasks", "tx.bind_instances"}
    and point.removeprefix("tx.") not in DELIVERY_STEPS
]


async def under_fire(server: Server, *, kills: int, seed: int) -> Witness:
    """Clients work while the server is killed at random moments and started again."""
    chance = random.Random(seed)
    witness, stop = Witness(server.url), asyncio.Event()
    async with httpx.AsyncClient(timeout=10) as client:
        workers = [asyncio.create_task(witness.work(client, stop)) for _ in range(CLIENTS)]
        for _ in range(kills):
            before = witness.answers
            while witness.answers < before + chance.randrange(1, 12):
                assert server.is_alive(), server.log_tail()
                await asyncio.sleep(0.005)
            await asyncio.sleep(chance.random() * 0.05)
            await asyncio.to_thread(server.kill)
            server.start()
        await asyncio.to_thread(server.wait_until_ready)
        stop.set()
        await asyncio.gather(*workers)
        await witness.check(client)
        await witness.check_replays(client)
    return witness


@pytest.mark.slow
@pytest.mark.timeout(580)
@pytest.mark.parametrize("lane", [pytest.param(n, marks=pytest.mark.xdist_group(f"kills-{n}")) for n in range(LANES)])
async def test_kills_at_random_moments_lose_nothing_and_double_nothing(tmp_path: Path, lane: int) -> None:
    url = f"sqlite:///{tmp_path}/virtflow.db"
    server = Server(database_url=url, log=tmp_path / "server.log")
    with running(server):
        register_hosts(server.url, hosts=40, cores=500)
        witness = await under_fire(server, kills=KILLS_PER_LANE, seed=lane)
    assert server.starts == KILLS_PER_LANE + 1
    report = fsck(url)
    assert report["violations_total"] == 0
    print(
        f"{KILLS_PER_LANE} kills, {len(witness.acknowledged)} VMs acknowledged, {witness.unanswered} unanswered tries"
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.service("postgresql")
@pytest.mark.xdist_group("kills-postgresql")
async def test_the_same_holds_on_postgresql_also_when_the_database_is_killed(tmp_path: Path) -> None:
    with postgres_server() as postgresql:  # of its own: it is killed
        await fire_at_both(
            postgresql, Server(database_url=await postgresql.create_database("kills"), log=tmp_path / "server.log")
        )


async def fire_at_both(postgresql: PostgresServer, server: Server) -> None:
    url = postgresql.url("kills")
    with running(server):
        register_hosts(server.url, hosts=40, cores=500)
        await under_fire(server, kills=KILLS_ON_POSTGRESQL, seed=7)
        witness, stop = Witness(server.url), asyncio.Event()
        before = await placed_names(server)
        async with httpx.AsyncClient(timeout=30) as client:
            workers = [asyncio.create_task(witness.work(client, stop)) for _ in range(CLIENTS)]
            for _ in range(DATABASE_KILLS):
                answers = witness.answers
                while witness.answers < answers + 20:
                    assert server.is_alive(), server.log_tail()
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(postgresql.kill)
                await asyncio.to_thread(postgresql.start)
            stop.set()
            await asyncio.gather(*workers)
            await witness.check(client, besides=before)
    assert fsck(url)["violations_total"] == 0


async def placed_names(server: Server) -> set[str]:
    async with httpx.AsyncClient(timeout=10) as client:
        return set(await Witness(server.url).found(client))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("kills-at-points")
async def test_a_kill_at_each_step_of_the_walk_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/virtflow.db"
    server = Server(database_url=url, log=tmp_path / "server.log")
    with running(server):
        register_hosts(server.url, hosts=10, cores=500)
        witness, stop = Witness(server.url), asyncio.Event()
        async with httpx.AsyncClient(timeout=10) as client:
            workers = [asyncio.create_task(witness.work(client, stop, delete_every=2)) for _ in range(2)]
            for point, nth in itertools.product(ON_THE_WALK, (1, 4)):
                await asyncio.to_thread(server.kill)
                server.start(failpoints=f"{point}=kill@{nth}")
                async with asyncio.timeout(30):
                    while server.is_alive():
                        await asyncio.sleep(0.005)
            server.start(failpoints="")
            await asyncio.to_thread(server.wait_until_ready)
            stop.set()
            await asyncio.gather(*workers)
            await witness.check(client)
            await witness.check_replays(client)
    assert fsck(url)["violations_total"] == 0


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_sigterm_under_load_answers_what_it_took_in_and_is_gone_in_time(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/virtflow.db"
    server = Server(database_url=url, log=tmp_path / "server.log")
    with running(server):
        register_hosts(server.url, hosts=10, cores=500)
        witness, stop = Witness(server.url), asyncio.Event()
        async with httpx.AsyncClient(timeout=10) as client:
            workers = [asyncio.create_task(witness.work(client, stop)) for _ in range(CLIENTS)]
            while witness.answers < 50:
                await asyncio.sleep(0.01)
            status = await asyncio.to_thread(server.terminate, within_s=10)
            server.start()
            await asyncio.to_thread(server.wait_until_ready)
            stop.set()
            await asyncio.gather(*workers)
            await witness.check(client)
    assert status in (0, -15)
    assert fsck(url)["violations_total"] == 0
