"""A loop whose time is not that of the world: it goes on to the next moment for which somebody waits."""

import asyncio
import heapq
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now_s = 1000.0

    def time(self) -> float:
        return self._now_s

    def jump(self, seconds: float) -> None:
        """As if the process had been stopped for so long."""
        self._now_s += seconds

    def _run_once(self) -> None:
        waiting: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while waiting and waiting[0].cancelled():
            heapq.heappop(waiting)._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
        if waiting and not self._ready:  # type: ignore[attr-defined]
            self._now_s = max(self._now_s, waiting[0].when())
        super()._run_once()  # type: ignore[misc]


class LoopClock:
    """A clock that goes `speed` times as fast as the loop's."""

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = speed

    def now_ms(self) -> int:
        return int(self.monotonic_s() * 1000)

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time() * self._speed


def run(work: Coroutine[Any, Any, T]) -> T:
    """In a time of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
