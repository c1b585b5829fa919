"""Where a run takes place, and what nemeses may touch there."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from chaos.load import Load
from chaos.scene import Scene
from chaos.watch import Watch
from virtflow.testing.cluster import Cluster, Process
from virtflow.testing.postgres import PostgresServer
from virtflow.testing.proxy import Proxy
from virtflow.testing.rabbitmq import RabbitmqServer
from virtflow.testing.receiver import Receiver

#: everything comes back within that time, or the run ends as a failure
PATIENCE_S = 60.0
_POLL_S = 0.02
#: who still waits and should not: there is room, or his patience is over
_WAITING = """
    SELECT count(*) AS waiting, count(*) FILTER (WHERE when_unplaceable = 0 OR deadline_ms IS NOT NULL) AS impatient,
        (SELECT count(*) FROM instance WHERE host_id IS NOT NULL) AS placed
    FROM task WHERE state < 2
"""
#: so many wait for as long as it takes: what is deleted now cannot let all of them in
PATIENT_MIN = 20
_FULL = """
    SELECT count(*) FILTER (WHERE when_unplaceable = 1 AND deadline_ms IS NULL) >= $1
        AND (SELECT count(*) FROM instance WHERE host_id IS NOT NULL) >= $2 AS full
    FROM task WHERE state < 2
"""


@dataclass(slots=True, kw_only=True)
class World:
    """What nemeses may touch."""

    scene: Scene
    folder: Path
    url: str
    lease_s: float
    #: the primary
    postgres: PostgresServer
    #: confirms every commit, and can take over
    standby: PostgresServer | None
    broker: RabbitmqServer | None
    cluster: Cluster
    #: between a process and the database, by the name of the process
    wires: dict[str, Proxy]
    #: between all and the broker
    broker_wire: Proxy | None
    #: is told by webhook of all that becomes of VMs
    hook: Receiver | None
    watch: Watch
    load: Load
    #: by the wall clock in milliseconds: when it was set up
    began_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    #: what a relay delivered that was paused, and woke up after somebody else had delivered it
    echoes: list[str] = field(default_factory=list)
    #: when a part was away, by the wall clock in milliseconds
    windows: list[tuple[int, int]] = field(default_factory=list)

    @property
    def apis(self) -> list[Process]:
        return [process for process in self.cluster if process.name.startswith("api")]

    @property
    def schedulers(self) -> list[Process]:
        return [process for process in self.cluster if process.name.startswith("scheduler")]

    def last_leader(self) -> Process:
        """Who placed last: most likely he still leads."""
        last = self.watch.last_placement
        pids = {process.pid: process for process in self.schedulers if process.is_alive()}
        return pids.get(last.pid if last else 0) or next(iter(pids.values()))

    async def leader(self) -> Process:
        """Who placed last, if he still leads; otherwise whoever does. There is an heir beside him."""
        leader = self.last_leader()
        if not await asyncio.to_thread(leader.is_leading):
            leader = await asyncio.to_thread(self.cluster.wait_for_leader)
        await self.until(lambda: self._has_heir(leader), f"an heir beside {leader.name}")
        return leader

    async def _has_heir(self, leader: Process) -> bool:
        for process in self.schedulers:
            if process is not leader and await asyncio.to_thread(process.is_ready):
                return True
        return False

    async def until(
        self, holds: Callable[[], Awaitable[bool]], what: str, *, within_s: float = PATIENCE_S, poll_s: float = _POLL_S
    ) -> None:
        try:
            async with asyncio.timeout(within_s):
                while not await holds():
                    await asyncio.sleep(poll_s)
        except TimeoutError:
            logs = await asyncio.to_thread(self.cluster.log_tails)
            raise TimeoutError(f"waited {within_s:g} s in vain for {what}:\n{logs}") from None

    async def next_acceptance(self, *, after_s: float) -> float:
        """Seconds until the next order was answered."""

        async def answered() -> bool:
            return self.load.tally.accepted_s > after_s

        await self.until(answered, "an accepted order")
        return self.load.tally.accepted_s - after_s

    async def full_house(self) -> None:
        """Returns when there is no room, but for what was deleted this moment and is given away in the next."""

        async def full() -> bool:
            [row] = await self.rows(_FULL, PATIENT_MIN, self.scene.places * 9 // 10)
            return bool(row["full"])

        await self.until(full, "a full house", poll_s=0.1)

    async def some_load(self, operations: int) -> None:
        """So many more answers."""
        wanted = self.load.tally.answered + operations

        async def enough() -> bool:
            return self.load.tally.answered >= wanted

        await self.until(enough, f"{operations} answers")

    async def rows(self, query: str, *arguments: object) -> list[Any]:
        """Of the database, past all wires."""
        connection: Any = await asyncpg.connect(self.url, timeout=PATIENCE_S)
        try:
            return list(await connection.fetch(query, *arguments))
        finally:
            await connection.close()

    @contextlib.contextmanager
    def fault(self) -> Any:
        """A part is away inside the block: what was accepted meanwhile is looked at by itself."""
        began_ms = int(time.time() * 1000)
        try:
            yield
        finally:
            self.windows.append((began_ms, int(time.time() * 1000)))

    async def heal(self) -> None:
        """Everything runs, every wire carries, and all are ready."""
        for wire in [*self.wires.values(), *([self.broker_wire] if self.broker_wire else [])]:
            wire.swallow_reply_to = None
            wire.flow()
        for process in self.cluster:
            if process.is_stopped:
                process.cont()
            if not process.is_alive():
                process.start()
        await asyncio.to_thread(self.cluster.wait_until_ready)

    async def rest(self) -> int:
        """Waits until nobody is at work; returns how many tasks then still wait and should not."""
        left = -1

        async def settled() -> bool:
            nonlocal left
            [row] = await self.rows(_WAITING)
            left = row["impatient"] if row["placed"] >= self.scene.places else row["waiting"]
            return left == 0

        with contextlib.suppress(TimeoutError):
            await self.until(settled, "tasks to come to rest")
        return left


def anywhere(chance: random.Random, seconds: float) -> Awaitable[None]:
    """A fault may come at any moment of a round."""
    return asyncio.sleep(chance.random() * seconds)
