"""Loops that run beside each other: one that fails starts again, and health knows."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger("virtflow")

#: a loop that fails starts again after so long, and after twice that when it fails again
RESTART_S, RESTART_S_MAX = 0.5, 30.0
#: a loop that has run for so long is well again
WELL_S = 60.0

Loop = Callable[[], Coroutine[Any, Any, None]]


class Loops:
    """What each of them is doing, by name: "ok", or what is wrong."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}

    def start(self, stack: contextlib.AsyncExitStack, name: str, loop: Loop) -> None:
        """Until the stack is left."""
        stack.push_async_callback(end, asyncio.create_task(self._keep_running(name, loop)))

    async def _keep_running(self, name: str, loop: Loop) -> None:
        """A loop that fails starts again, after growing waits; while it is down, health says so."""
        failures = 0
        try:
            while True:
                began_s = time.monotonic()
                try:
                    self.states[name] = "ok"
                    await loop()
                    return
                except Exception as error:
                    failures = 1 if time.monotonic() - began_s > WELL_S else failures + 1
                    self.states[name] = f"restarting after {type(error).__name__}: {error}"
                    log.exception("loop.failed", loop=name)
                    await asyncio.sleep(min(RESTART_S_MAX, RESTART_S * 2 ** min(failures, 10)))
        finally:
            self.states.pop(name, None)  # who was told to stop is not ill


async def end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
