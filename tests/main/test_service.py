"""Every loop of a process, made to fail: it starts again, work goes on, and health is red only for what stays down."""

import asyncio
from collections.abc import Awaitable, Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from tests.control.conftest import config, host, order
from tests.control.test_cluster import soon
from tests.control.test_schedule import create, register, until_placed

from virtflow.main import Service, build
from virtflow.main import loops as main_loops
from virtflow.model.errors import Unavailable
from virtflow.testing.fleets import SimulatedInventory

pytestmark = pytest.mark.service("postgresql")

#: whose method fails, and the part of health that says so when it stays down; "" where the part mends itself
LOOPS = {
    "queue.publish": "publishing",
    "queue.listen": "queue",
    "scheduler.run": "scheduling",
    "scheduler.answer_in_time": "answering",
    "follower.run": "follower",
    "inventories.run": "inventories",
    "housekeeping.run": "housekeeping",
    "election.campaign": "office of scheduler",
    "relay_election.campaign": "office of relay",
    "scheduler.lead": "work of scheduler",
    "relay.work": "work of relay",
}
#: awaited inside the loops: whoever waits is told, or the loop above starts again
INSIDE = (
    "scheduler._run_rounds",
    "scheduler._next_round",
    "scheduler._decide",
    "scheduler._reload",
    "scheduler._take_up",
    "scheduler._know_everything",
    "scheduler._committer.commit",
    "scheduler._committer.take_fence",
    "follower._follow",
    "follower._hear",
    "follower._follow_on",
    "follower._apply",
    "inventories._follow",
    "inventories._ask",
    "inventories._take_over",
    "housekeeping.sweep",
)


class Planted(Exception):
    pass


def plant(service: Service, path: str, *, times: int) -> None:
    """The method fails so often, whatever it is told."""
    parent, _, name = path.rpartition(".")
    owner = attrgetter(parent)(service)
    method: Callable[..., Awaitable[Any]] = getattr(owner, name)
    left = times

    async def failing(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        await asyncio.sleep(0)
        if left:
            left -= 1
            raise Planted(path)
        return await method(*arguments, **named)

    setattr(owner, name, failing)


@pytest.fixture
def service(postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setattr(main_loops, "RESTART_S", 0.01)
    monkeypatch.setattr(main_loops, "WELL_S", 0.2)
    monkeypatch.setattr("virtflow.control.lead.REST_S", 0.01)
    monkeypatch.setattr("virtflow.control.lead.WELL_S", 0.2)
    monkeypatch.setattr("virtflow.main.service.LEAD_AT_START_S_MAX", 0.1)
    given = config(tmp_path / "unused.db", database_url=postgresql_url)
    return build(given, inventories=[SimulatedInventory(2)])


async def is_red(service: Service, part: str) -> bool:
    report = await service.house.health.check()
    return not report.ok and "Planted" in report.parts[part]


async def is_well(service: Service) -> bool:
    return (await service.house.health.check()).ok


@pytest.mark.parametrize("path", [*LOOPS, *INSIDE])
async def test_a_loop_that_fails_three_times_goes_on(service: Service, path: str) -> None:
    plant(service, path, times=3)
    async with service.running():
        await soon(lambda: is_well(service))
        await register(service, host("bm-1", cores=500))
        for number in range(4):
            async with asyncio.timeout(10):
                while not await was_created(service, f"vm-{number}"):
                    pass
            await until_placed(service, f"vm-{number}")
        await soon(lambda: is_well(service))


async def was_created(service: Service, name: str) -> bool:
    """Whoever waits is told of what fails, and may ask again."""
    try:
        await create(service, order(name))
    except (Planted, Unavailable):
        return False
    return True


@pytest.mark.parametrize("path", LOOPS)
async def test_a_loop_that_stays_down_turns_health_red(service: Service, path: str) -> None:
    plant(service, path, times=10**9)
    async with service.running():
        await soon(lambda: is_red(service, LOOPS[path]))
        text = (await service.house.metrics.text()).decode()
        assert "virtflow_loop_restarts_total{" in text or LOOPS[path].startswith("work of")
