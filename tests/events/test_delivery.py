"""From the commit to the bus, with real processes: kills and outages lose nothing and put nothing out of order."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.events.buses import Bus, first_arrivals, versions

from virtflow.events import line
from virtflow.testing.witness import Server, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
POOLS = 3
WITHIN_S = 60.0


def server_for(bus: Bus, tmp_path: Path, *, failpoints: str = "") -> Server:
    flags = [word for name, value in bus.settings.items() for word in (f"--{name.replace('_', '-')}", value)]
    url = f"sqlite:///{tmp_path}/virtflow.db"
    return Server(database_url=url, log=tmp_path / "server.log", failpoints=failpoints, flags=flags)


async def happen(client: httpx.AsyncClient, count: int) -> None:
    """So many events, about a few objects in turn."""
    for number in range(count):
        answer = await client.put(f"/v1/pools/p{number % POOLS}", json={"accepts_work": number % 2 == 0})
        assert answer.status_code == 200, answer.text


async def outlet_of(client: httpx.AsyncClient, bus: Bus) -> dict[str, Any]:
    """Empty as long as there is none."""
    answer = await client.get(f"/v1/outlets/{bus.name}")
    return {} if answer.status_code == 404 else dict(answer.json())


async def until_told(client: httpx.AsyncClient, bus: Bus) -> None:
    """The bus was told of everything that happened so far."""
    newest = (await client.get("/v1/events")).json()["newest"]
    async with asyncio.timeout(WITHIN_S):
        while True:
            if (await outlet_of(client, bus)).get("cursor", -1) >= newest:
                return
            await asyncio.sleep(0.02)


async def check(client: httpx.AsyncClient, bus: Bus) -> None:
    """What arrived is what happened: all of it, nothing else, and for each object in order."""
    log: list[dict[str, Any]] = (await client.get("/v1/events?limit=1000")).json()["items"]
    arrived = {event.get_extension("sequence"): event.get_data() for event in first_arrivals(await bus.bodies())}
    assert [arrived[number] for number in sorted(arrived)] == log
    expected: dict[str, list[int]] = {}
    for event in log:
        expected.setdefault(f"{event['kind']}/{event['id']}", []).append(event["version"])
    assert versions(await bus.bodies()) == expected


@pytest.fixture
async def listening(real_bus: Bus) -> Bus:
    await real_bus.ready()
    return real_bus


async def test_a_relay_killed_between_publishing_and_its_cursor_loses_nothing(listening: Bus, tmp_path: Path) -> None:
    server = server_for(listening, tmp_path, failpoints="tx.move_outlets=kill@2")
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        with running(server):
            with pytest.raises(httpx.TransportError):
                await happen(client, 10_000)  # it dies long before
            await asyncio.to_thread(server.kill)
            arrived = len(list(first_arrivals(await listening.bodies())))
            server.start(failpoints="")
            await asyncio.to_thread(server.wait_until_ready)
            # more was published than the cursor knows of
            assert (await client.get("/v1/events")).json()["newest"] >= arrived > 0
            await happen(client, 2 * POOLS)
            await until_told(client, listening)
            await check(client, listening)


async def test_a_bus_that_is_away_in_the_middle_is_told_when_it_is_back(listening: Bus, tmp_path: Path) -> None:
    server = server_for(listening, tmp_path)
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        with running(server):
            await happen(client, 10)
            await until_told(client, listening)
            await asyncio.to_thread(listening.go_away)
            await happen(client, 10)  # nobody who orders notices
            await until_failing(client, listening)
            await asyncio.to_thread(listening.come_back)
            await happen(client, 10)
            await until_told(client, listening)
            outlet = await outlet_of(client, listening)
            assert (outlet["state"], outlet["behind"], outlet["error"]) == ("ok", 0, "")
            await check(client, listening)


async def until_failing(client: httpx.AsyncClient, bus: Bus) -> None:
    async with asyncio.timeout(2 * line.ACKNOWLEDGE_S_MAX + WITHIN_S):
        while (await outlet_of(client, bus)).get("state") != "failing":
            await asyncio.sleep(0.02)
