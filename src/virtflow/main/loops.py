"""Loops that run beside each other: one that fails starts again, and health knows when it stays down."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog

log = structlog.get_logger("virtflow")

#: a loop that fails starts again after so long, and after twice that when it fails again
RESTART_S, RESTART_S_MAX = 0.5, 30.0
#: a loop that has run for so long is well again
WELL_S = 5.0
#: one that failed so often in a row stays down: health turns red
FAILURES_MAX = 2

Loop = Callable[[], Coroutine[Any, Any, None]]


class LoopEnded(Exception):
    """A loop without end came to one."""


class Loops:
    """`restarted` is told the name of each loop that failed and starts again."""

    def __init__(self, *, restarted: Callable[[str], None] = lambda name: None) -> None:
        self._restarted = restarted
        self._states: dict[str, str] = {}
        self._watched: dict[str, Callable[[], str]] = {}
        self._may_end = False

    def report(self) -> Mapping[str, str]:
        """What each of them is doing, by name: "ok", or what is wrong."""
        return self._states | {name: state() for name, state in self._watched.items()}

    def watch(self, name: str, state: Callable[[], str]) -> None:
        """Something that mends itself and says how it is."""
        self._watched[name] = state

    def may_end(self) -> None:
        """From now on a loop that returns has done its work."""
        self._may_end = True

    def start(self, stack: contextlib.AsyncExitStack, name: str, loop: Loop) -> None:
        """Until the stack is left."""
        stack.push_async_callback(end, asyncio.create_task(self._keep_running(name, loop)))

    async def _keep_running(self, name: str, loop: Loop) -> None:
        failures = 0
        self._states[name] = "ok"
        try:
            while True:
                began_s = asyncio.get_running_loop().time()
                try:
                    await self._run(name, loop)
                    return
                except Exception as error:
                    failures = 1 if asyncio.get_running_loop().time() - began_s > WELL_S else failures + 1
                    self._failed(name, error, failures)
                await asyncio.sleep(min(RESTART_S_MAX, RESTART_S * 2 ** min(failures - 1, 10)))
        finally:
            self._states.pop(name, None)  # who was told to stop is not ill

    async def _run(self, name: str, loop: Loop) -> None:
        """One life of it; who has lived long enough is well again."""
        well = asyncio.get_running_loop().call_later(WELL_S, self._is_well, name)
        try:
            await loop()
        finally:
            well.cancel()
        if not self._may_end:
            raise LoopEnded("it ended by itself")

    def _is_well(self, name: str) -> None:
        if self._states[name] != "ok":
            log.info("loop.recovered", loop=name)
        self._states[name] = "ok"

    def _failed(self, name: str, error: Exception, failures: int) -> None:
        self._restarted(name)
        if failures >= FAILURES_MAX:
            self._states[name] = f"restarting after {type(error).__name__}: {error}"
        if failures <= FAILURES_MAX:  # one line for each change of state, not for each try
            log.error("loop.failed", loop=name, stays_down=failures >= FAILURES_MAX, exc_info=error)


async def end(task: asyncio.Task[Any]) -> None:
    """Returns when it has ended, however it did: on the way out its failure must not take the place of another.

    Whoever is cancelled meanwhile stays cancelled, once it has ended.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        task.cancel()
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if not task.cancelled():
        task.exception()  # looked at, so that nobody warns about it
    if cancelled is not None:
        raise cancelled
