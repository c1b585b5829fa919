"""An event loop with a time of its own: nothing waits, and chance alone says whose turn it is.

Within a process callbacks run in the order in which they became ready, as asyncio promises. Between processes any order
is possible, so the seed chooses: a process, and for how many steps it runs before another may.
"""

import asyncio
import contextlib
import contextvars
import heapq
import itertools
from collections.abc import Callable, Coroutine, Generator, Iterator
from random import Random
from typing import Any, TypeVar

from virtflow.testing.simulation.place import HERE, Place

T = TypeVar("T")

#: what a step costs, so that time goes on while somebody works
STEP_S = 0.000_02
#: cancelled timers are swept out when they are so many, and most of all
CANCELLED_KEPT_MAX = 512
#: what was left unfinished is told to end so often, with so many turns in between
BURIALS_MAX, BURIAL_TURNS = 20, 500

_copy_context = contextvars.copy_context
#: the same, for a type checker that takes its default for something else
_HERE: Any = HERE


class StuckError(Exception):
    """Nothing will ever happen again, and somebody still waits."""


class _Future(asyncio.Future[Any]):
    """Hashed by its number: an address would order sets differently in every run."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class _Task(asyncio.Task[Any]):
    number = 0

    def __init__(self, number: int, work: Any, **named: Any) -> None:
        self.number = number  # asked for by the base class already
        super().__init__(work, **named)

    def __hash__(self) -> int:
        return self.number


class Loop(asyncio.AbstractEventLoop):
    def __init__(self, chance: Random, *, slice_steps: float = 4.0) -> None:
        """`slice_steps`: so long, about, one process runs before another may."""
        self._chance = chance.random
        self._slice = slice_steps
        self.world_s = 0.0
        self.steps = 0
        #: who ran for how long, mixed into one number
        self.schedule = 0
        self._world = Place("world", number=0)
        self._listed: list[Place] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Place]] = []
        self._cancelled = 0
        self._numbers = itertools.count(1)
        self.tasks: dict[Place, list[_Task]] = {}
        self.on_failure: Callable[[dict[str, Any]], None] = lambda _: None

    # ── what asyncio asks for ─────────────────────────────────────────────────────────────────────

    def time(self) -> float:
        """By the clock of whoever asks."""
        place = HERE.get()
        return self.world_s if place is None else place.clock_s(self.world_s)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if context is None:  # an empty one is false
            context = _copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._get_ready(handle, context.get(_HERE) or self._world)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if context is None:
            context = _copy_context()
        place = context.get(_HERE) or self._world
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (place.world_s(when), next(self._numbers), handle, place))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        place = (HERE.get() if context is None else context.get(_HERE)) or self._world
        return self.call_at(place.clock_s(self.world_s) + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        future = _Future(loop=self)
        future.number = next(self._numbers)
        return future

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        task = _Task(next(self._numbers), coro, loop=self, name=name, context=context)
        place = (HERE.get() if context is None else context.get(_HERE)) or self._world
        tasks = self.tasks.setdefault(place, [])
        if len(tasks) > 256:
            tasks[:] = [one for one in tasks if not one.done()]
        tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.on_failure(context)

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        self._cancelled += 1

    # ── time and turns ────────────────────────────────────────────────────────────────────────────

    def run_until(self, work: Coroutine[Any, Any, T], *, steps_max: int) -> T:
        """Runs the world until this is done."""
        with self._running():
            main = self.create_task(work)
            while not main.done():
                if self.steps > steps_max:
                    raise StuckError(f"no end after {steps_max} steps")
                self._turn()
            return main.result()

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        asyncio.events._set_running_loop(self)
        try:
            yield
        finally:
            asyncio.events._set_running_loop(None)

    def _turn(self) -> None:
        self._wake_due()
        listed = self._listed
        if not listed:
            self._pass_time()
            return
        index = int(self._chance() * len(listed)) if len(listed) > 1 else 0
        place = listed[index]
        count = 1 + int(self._chance() * 2 * self._slice)
        self.schedule = (self.schedule * 1_000_003 + place.number * 64 + count) & 0xFFFF_FFFF_FFFF_FFFF
        self._run_some(place, count)

    def _run_some(self, place: Place, count: int) -> None:
        ready = place.ready
        for _ in range(count):
            if place.is_stopped or not ready:
                break
            handle = ready.popleft()
            if handle._cancelled:
                continue
            self.steps += 1
            self.world_s += STEP_S
            handle._run()
        if place.is_listed and (not ready or place.is_stopped):
            self._unlist(place)

    def _get_ready(self, handle: asyncio.Handle, place: Place) -> None:
        place.ready.append(handle)
        if not place.is_listed and not place.is_stopped:
            place.is_listed = True
            self._listed.append(place)

    def _unlist(self, place: Place) -> None:
        place.is_listed = False
        self._listed.remove(place)

    def _wake_due(self) -> None:
        timers = self._timers
        while timers and (timers[0][0] <= self.world_s or timers[0][2]._cancelled):
            _, _, handle, place = heapq.heappop(timers)
            if handle._cancelled:
                self._cancelled -= 1
            else:
                self._get_ready(handle, place)
        if self._cancelled > CANCELLED_KEPT_MAX and self._cancelled * 2 > len(timers):
            self._timers = [entry for entry in timers if not entry[2]._cancelled]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _pass_time(self) -> None:
        if not self._timers:
            raise StuckError("everybody waits for somebody else")
        self.world_s = max(self.world_s, self._timers[0][0])

    # ── what can happen to a process ──────────────────────────────────────────────────────────────

    def stop_place(self, place: Place) -> None:
        """As SIGSTOP does: its clock goes on, its code does not."""
        place.is_stopped = True
        if place.is_listed:
            self._unlist(place)

    def continue_place(self, place: Place) -> None:
        if place.is_dead:
            return
        place.is_stopped = False
        if place.ready and not place.is_listed:
            place.is_listed = True
            self._listed.append(place)

    def kill_place(self, place: Place) -> None:
        """As SIGKILL does: nothing of it runs again, not even what cleans up."""
        self.stop_place(place)
        place.is_dead = True

    def bury(self) -> None:
        """After everything was judged: what was left in the middle of something is unwound, and has no effect."""
        with self._running():
            for place in self.tasks:
                place.is_dead = False
                self.continue_place(place)
            for _ in range(BURIALS_MAX):
                left = [task for tasks in self.tasks.values() for task in tasks if not task.done()]
                if not left:
                    break
                for task in left:
                    task.cancel()
                with contextlib.suppress(StuckError):
                    for _ in range(BURIAL_TURNS):
                        self._turn()
        self.tasks.clear()


def make_loop(chance: Random, *, slice_steps: float) -> Loop:
    return Loop(chance, slice_steps=slice_steps)  # type: ignore[abstract]  # sockets, signals and threads it has none
