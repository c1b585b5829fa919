"""A loop that fails starts again; one that stays down shows in health until it has run for a while."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from virtflow.main import loops as main_loops
from virtflow.main.loops import Loops


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_loops, "RESTART_S", 0.01)
    monkeypatch.setattr(main_loops, "RESTART_S_MAX", 0.02)
    monkeypatch.setattr(main_loops, "WELL_S", 0.1)


async def soon(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


class Work:
    """Fails as often as told, then goes on for ever."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.starts = 0

    async def __call__(self) -> None:
        self.starts += 1
        await asyncio.sleep(0)
        if self.starts <= self.failures:
            raise RuntimeError("planted")
        await asyncio.Event().wait()


async def test_a_loop_that_fails_once_starts_again_and_nobody_is_alarmed() -> None:
    work, restarted = Work(failures=1), list[str]()
    loops = Loops(restarted=restarted.append)
    async with contextlib.AsyncExitStack() as stack:
        loops.start(stack, "digging", work)
        await soon(lambda: work.starts == 2)
        assert loops.report() == {"digging": "ok"}
        assert restarted == ["digging"]


async def test_a_loop_that_stays_down_is_named_until_it_has_run_for_a_while() -> None:
    work = Work(failures=5)
    loops = Loops()
    async with contextlib.AsyncExitStack() as stack:
        loops.start(stack, "digging", work)
        await soon(lambda: work.starts == 3)
        assert loops.report() == {"digging": "restarting after RuntimeError: planted"}
        await soon(lambda: work.starts == 6)
        assert loops.report()["digging"] != "ok"  # it has only begun
        await soon(lambda: loops.report()["digging"] == "ok")


async def test_a_loop_that_stays_down_and_recovers_is_three_lines() -> None:
    work, loops = Work(failures=5), Loops()
    with capture_logs() as lines:
        async with contextlib.AsyncExitStack() as stack:
            loops.start(stack, "digging", work)
            await soon(lambda: work.starts == 6)
            await soon(lambda: loops.report()["digging"] == "ok")
    said = [(line["event"], line.get("stays_down")) for line in lines]
    assert said == [("loop.failed", False), ("loop.failed", True), ("loop.recovered", None)]


async def test_a_loop_that_ends_by_itself_starts_again_until_loops_may_end() -> None:
    starts = 0
    told = asyncio.Event()

    async def returns() -> None:
        nonlocal starts
        starts += 1
        if starts > 2:
            await told.wait()

    loops = Loops()
    async with contextlib.AsyncExitStack() as stack:
        loops.start(stack, "digging", returns)
        await soon(lambda: starts == 3)
        assert "it ended by itself" in loops.report()["digging"]
        loops.may_end()
        told.set()
        await soon(lambda: "digging" not in loops.report())
    assert starts == 3


async def test_waits_between_starts_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def noted(seconds: float) -> None:
        if seconds:
            waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(main_loops, "RESTART_S_MAX", 0.3)
    monkeypatch.setattr(main_loops.asyncio, "sleep", noted)
    async with contextlib.AsyncExitStack() as stack:
        Loops().start(stack, "digging", Work(failures=100))
        while len(waits) < 7:
            await sleep(0)
    assert waits[:7] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.3, 0.3]


async def test_who_is_told_to_stop_is_not_ill() -> None:
    loops = Loops()
    async with contextlib.AsyncExitStack() as stack:
        loops.start(stack, "digging", Work(failures=0))
        await asyncio.sleep(0)
        assert loops.report() == {"digging": "ok"}
    assert loops.report() == {}


async def test_who_is_told_to_stop_while_he_ends_another_stops_too() -> None:
    """A process whose term ended at the moment it was told to stop went on for ever."""
    may_end = asyncio.Event()

    async def take_leave() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await may_end.wait()

    other = asyncio.create_task(take_leave())
    await asyncio.sleep(0)
    ending = asyncio.create_task(main_loops.end(other))
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait([ending], timeout=10)
    assert ending.cancelled()
    assert other.done()


async def test_a_failure_of_who_is_ended_does_not_take_the_place_of_being_told_to_stop() -> None:
    """A process whose lead failed at the moment it was told to stop went on for ever."""

    async def fail() -> None:
        raise ValueError

    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            failing = asyncio.create_task(fail())
            stack.push_async_callback(main_loops.end, failing)
            await asyncio.sleep(3600)

    working = asyncio.create_task(work())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    working.cancel()
    await asyncio.wait([working], timeout=10)
    assert working.cancelled()
