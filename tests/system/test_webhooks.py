"""`kill -9` between sending and writing down, and at random moments: every event arrives, some of them twice."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from virtflow.testing.cluster import Process, cluster
from virtflow.testing.failpoints import DELIVERY_STEPS
from virtflow.testing.receiver import Behaviour, Receiver, receiver
from virtflow.testing.witness import Server, running

KILLS = 4
POOLS, CHANGES = 4, 10
ALLOW = ["--webhook-allow", "127.0.0.0/8"]


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    async with receiver() as hook:
        yield hook


def subscribe(server: Server | Process, hook: Receiver, name: str = "ops", **more: object) -> None:
    body = {"name": name, "url": hook.url, "events": ["host."], **more}
    httpx.post(f"{server.url}/v1/webhooks", json=body, timeout=30).raise_for_status()


def register(server: Server, name: str) -> None:
    host = {"name": name, "capacity": {"cpu": 1000, "memory": 1024}}
    httpx.post(f"{server.url}/v1/hosts", json=host, timeout=30).raise_for_status()


def subjects(hook: Receiver) -> set[str]:
    return {str(message.event["subject"]) for message in hook.messages}


def first_seqs(hook: Receiver, subject: str) -> list[int]:
    """Numbers of the events about one thing, in the order in which each came first."""
    events: list[dict[str, Any]] = [m.event["data"] for m in hook.messages if m.event["subject"] == subject]
    return list(dict.fromkeys(event["seq"] for event in events))


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("step", DELIVERY_STEPS)
async def test_a_kill_at_each_step_of_a_delivery_loses_nothing(tmp_path: Path, hook: Receiver, step: str) -> None:
    """A kill before writing down what became of a message is one between sending and recording."""
    server = Server(
        database_url=f"sqlite:///{tmp_path}/virtflow.db",
        log=tmp_path / "server.log",
        flags=ALLOW,
        failpoints=f"tx.{step}=kill@5",
    )
    with running(server):
        await asyncio.to_thread(subscribe, server, hook)
        told = set()
        async with asyncio.timeout(60):
            while server.is_alive():
                name = f"bm-{len(told)}"
                with contextlib.suppress(httpx.HTTPError):
                    await asyncio.to_thread(register, server, name)
                    told.add(f"host/{name}")
        assert told
        server.start(failpoints="")
        await asyncio.to_thread(server.wait_until_ready)
        await hook.until(lambda hook: subjects(hook) >= told)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_kills_at_random_moments_lose_no_event_and_keep_their_order(tmp_path: Path, hook: Receiver) -> None:
    """One receiver fails now and then; one thing changes all the time."""
    chance = random.Random(5)
    server = Server(database_url=f"sqlite:///{tmp_path}/virtflow.db", log=tmp_path / "server.log", flags=ALLOW)
    with running(server):
        await asyncio.to_thread(subscribe, server, hook)
        for number in range(KILLS):
            hook.behaviour = chance.choice((Behaviour.OK, Behaviour.OK, Behaviour.RESET))
            await asyncio.to_thread(register, server, f"bm-{number}")
            for verb in ("cordon", "uncordon"):
                url = f"{server.url}/v1/hosts/bm-0/{verb}"
                (await asyncio.to_thread(httpx.post, url, timeout=30)).raise_for_status()
            await asyncio.sleep(chance.random() * 0.2)
            await asyncio.to_thread(server.kill)
            server.start()
            await asyncio.to_thread(server.wait_until_ready)
        hook.behaviour = Behaviour.OK
        log = await asyncio.to_thread(httpx.get, f"{server.url}/v1/events?type=host.&limit=1000", timeout=30)
        wanted = {event["seq"] for event in log.json()["items"]}
        await hook.until(lambda hook: {m.event["data"]["seq"] for m in hook.messages} >= wanted, within_s=90)
        assert {m.event["data"]["seq"] for m in hook.messages} == wanted
    for number in range(KILLS):
        order = first_seqs(hook, f"host/bm-{number}")
        assert order == sorted(order)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.service("postgresql")
async def test_of_two_relays_one_is_killed_and_the_other_goes_on_and_nothing_is_lost(
    tmp_path: Path, new_postgresql_url: str, hook: Receiver
) -> None:
    settings = {"database_url": new_postgresql_url, "webhook_allow": "127.0.0.0/8", "lease_s": "1"}
    with cluster(tmp_path, **settings) as them:
        api = them.add("api", role="api")
        relays = [them.add(name, role="relay") for name in ("one", "two")]
        await asyncio.to_thread(them.start)
        await asyncio.to_thread(subscribe, api, hook, events=["pool."])
        dead = await asyncio.to_thread(them.wait_for_leader, "relay")
        working = asyncio.create_task(asyncio.to_thread(change_pools, api.url))
        await hook.until(lambda hook: len(hook.messages) >= 5)  # in the middle of it
        await asyncio.to_thread(dead.kill)
        await working
        heir = await asyncio.to_thread(them.wait_for_leader, "relay")
        assert heir in relays
        assert heir is not dead
        log = await asyncio.to_thread(httpx.get, f"{api.url}/v1/events?type=pool.&limit=1000", timeout=30)
        wanted = {event["seq"] for event in log.json()["items"]}
        assert len(wanted) == POOLS * CHANGES
        await hook.until(lambda hook: {m.event["data"]["seq"] for m in hook.messages} >= wanted)
    assert {m.event["data"]["seq"] for m in hook.messages} == wanted
    for number in range(POOLS):
        order = first_seqs(hook, f"pool/p-{number}")
        assert order == sorted(order)


def change_pools(url: str) -> None:
    """Each again and again."""
    with httpx.Client(timeout=30) as client:
        for change in range(CHANGES):
            for number in range(POOLS):
                body = {"overcommit": {"cpu": 1 + change}}
                client.put(f"{url}/v1/pools/p-{number}", json=body).raise_for_status()
