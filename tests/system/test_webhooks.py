"""`kill -9` between sending and writing down, and at random moments: every event arrives, some of them twice."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from virtflow.testing.failpoints import DELIVERY_STEPS
from virtflow.testing.receiver import Behaviour, Receiver, receiver
from virtflow.testing.witness import Server, running

KILLS = 4
ALLOW = ["--webhook-allow", "127.0.0.0/8"]


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    async with receiver() as hook:
        yield hook


def subscribe(server: Server, hook: Receiver, name: str = "ops", **more: object) -> None:
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
