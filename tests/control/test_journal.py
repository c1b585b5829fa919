"""What the log says of a task: who asked, and how long each step took."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture
from tests.control.conftest import host, order, wish
from tests.control.test_schedule import register, until_placed

from virtflow.control import journal
from virtflow.control.orders import Cause, VmOrder
from virtflow.main import Service
from virtflow.model.names import id_to_text
from virtflow.model.task import WhenUnplaceable

STEPS = ("waited_ms", "decided_ms", "committed_ms", "told_ms", "total_ms")
Start = Callable[..., AbstractAsyncContextManager[Service]]


@pytest.fixture
def lines(request: pytest.FixtureRequest) -> Any:
    captured = LogCapture()
    level = getattr(request, "param", 20)
    structlog.configure(processors=[captured], wrapper_class=structlog.make_filtering_bound_logger(level))
    yield captured.entries
    structlog.reset_defaults()


def of(lines: list[Any], event: str) -> list[Any]:
    return [line for line in lines if line["event"] == event]


async def ask(service: Service, *orders: VmOrder, request_id: str = "r-1") -> list[str]:
    views = await service.house.vms.create(list(orders), together=False, actor="test", cause=Cause(request_id))
    await asyncio.sleep(0)  # the round's last step comes after the answer
    return [id_to_text(view.task_id) for view in views]


@pytest.mark.parametrize("lines", [10], indirect=True)
async def test_at_debug_every_task_has_a_line_with_its_request_and_its_steps(start: Start, lines: list[Any]) -> None:
    async with start() as service:
        await register(service, host("bm-1"))
        tasks = await ask(service, order("web-1"), order("web-2"), request_id="r-7")
    placed = of(lines, "task.placed")
    assert [line["task"] for line in placed] == tasks
    for line in placed:
        assert (line["request_id"], line["host"], line["pool"]) == ("r-7", "bm-1", "default")
        assert line["log_level"] == "debug"
        assert all(line[step] >= 0 for step in STEPS)
        assert abs(line["total_ms"] - sum(line[step] for step in STEPS[:-1])) < 0.1


async def test_at_info_quick_placements_say_nothing(start: Start, lines: list[Any]) -> None:
    async with start() as service:
        await register(service, host("bm-1"))
        await ask(service, order("web-1"))
    assert of(lines, "task.placed") == []


async def test_at_info_what_waits_what_was_slow_and_what_fails_is_said(
    start: Start, lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SLOW_S", 0.01)
    async with start(retries_max="0") as service:
        await register(service, host("bm-1", cores=1))
        [waits] = await ask(service, order("big", want=wish(cores=4)), request_id="r-2")
        [fails] = await ask(
            service, order("huge", want=wish(cores=99), when_unplaceable=WhenUnplaceable.FAIL), request_id="r-3"
        )
        await asyncio.sleep(0.02)
        await register(service, host("bm-2"))
        await until_placed(service, "big")
        await asyncio.sleep(0.01)
    assert [line["task"] for line in of(lines, "task.waits")] == [waits]
    [failed] = of(lines, "task.failed")
    assert (failed["task"], failed["request_id"], failed["code"]) == (fails, "r-3", "larger_than_any_host")
    [placed] = of(lines, "task.placed")
    assert (placed["task"], placed["host"], placed["tries"]) == (waits, "bm-2", 2)
    assert placed["waited_ms"] >= 10


async def test_a_round_with_many_lines_says_how_many_were_left_out(
    start: Start, lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LINES_MAX", 3)
    async with start() as service:
        await register(service, host("bm-1", cores=1))
        await ask(service, *(order(want=wish(cores=2)) for _ in range(10)))
    assert len(of(lines, "task.waits")) == 3
    assert [line["count"] for line in of(lines, "tasks.more")] == [7]
