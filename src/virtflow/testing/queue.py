"""A queue inside one test, between several processes' worth of virtflow; and an observer that counts."""

import asyncio
import collections
from collections.abc import Sequence

from virtflow.queue import LookAt, SetAside


class Tally:
    """How messages fared, by outcome."""

    def __init__(self) -> None:
        self.published: collections.Counter[str] = collections.Counter()
        self.consumed: collections.Counter[str] = collections.Counter()
        self.confirmed: list[bytes] = []
        self.lost_calls = 0

    def observe_published(self, outcome: str) -> None:
        self.published[outcome] += 1

    def observe_confirmed(self, tasks: Sequence[bytes]) -> None:
        self.confirmed += tasks

    def observe_lost_calls(self, tasks: int) -> None:
        self.lost_calls += tasks

    def observe_consumed(self, outcome: str) -> None:
        self.consumed[outcome] += 1


class Wire:
    """Knocks go straight from who calls to who listens. `is_cut`: they are lost instead."""

    state = "ok"

    def __init__(self) -> None:
        self.is_cut = False
        self.carried: list[bytes] = []
        self.buried: list[bytes] = []
        self._calls: asyncio.Queue[list[bytes]] = asyncio.Queue()

    async def open(self) -> None:
        pass

    def call(self, ids: Sequence[bytes]) -> None:
        if not self.is_cut:
            self._calls.put_nowait(list(ids))

    def bury(self, ids: Sequence[bytes]) -> None:
        self.buried += ids

    async def publish(self) -> None:
        await asyncio.Event().wait()

    async def flush(self) -> None:
        pass

    async def listen(self, look_at: LookAt, set_aside: SetAside) -> None:
        while True:
            ids = await self._calls.get()
            try:
                await look_at(ids)
            except BaseException:
                self._calls.put_nowait(ids)  # for the next one who listens
                raise
            self.carried += ids

    async def close(self) -> None:
        pass
