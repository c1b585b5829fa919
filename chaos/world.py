"""Where a run takes place: a database and a broker of its own, API processes, schedulers, and wires to be cut."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from chaos.load import Load, load_on
from chaos.watch import Watch, watching
from virtflow.testing.cluster import Cluster, Process, cluster
from virtflow.testing.postgres import PostgresServer, postgres_server
from virtflow.testing.proxy import Proxy, proxy
from virtflow.testing.rabbitmq import RabbitmqServer, rabbitmq_server
from virtflow.testing.witness import register_hosts

APIS, SCHEDULERS = 2, 3
HOSTS, CORES = 50, 4_000
#: everything comes back within that time, or the run ends as a failure
PATIENCE_S = 60.0
_DATABASE = "chaos"
_POLL_S = 0.02
_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class World:
    """What nemeses may touch."""

    folder: Path
    url: str
    lease_s: float
    postgres: PostgresServer
    broker: RabbitmqServer | None
    cluster: Cluster
    #: between a process and the database, by the name of the process
    wires: dict[str, Proxy]
    watch: Watch
    load: Load
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
        for wire in self.wires.values():
            wire.swallow_reply_to = None
            wire.flow()
        for process in self.cluster:
            if process.is_stopped:
                process.cont()
            if not process.is_alive():
                process.start()
        await asyncio.to_thread(self.cluster.wait_until_ready)

    async def rest(self) -> int:
        """Waits until nobody is at work; returns how many tasks then still wait, though there is room."""
        left = -1

        async def settled() -> bool:
            nonlocal left
            [row] = await self.rows("SELECT count(*) AS left FROM task WHERE state < 2")
            left = row["left"]
            return left == 0

        with contextlib.suppress(TimeoutError):
            await self.until(settled, "tasks to be placed")
        return left


@contextlib.asynccontextmanager
async def world(
    folder: Path, *, lease_s: float, clients: int, seed: int, wired: bool, brokered: bool
) -> AsyncIterator[World]:
    """At work inside the block: hosts are registered and clients order."""
    await asyncio.to_thread(folder.mkdir, parents=True)
    async with contextlib.AsyncExitStack() as stack:
        postgres = await _entered(stack, postgres_server())
        broker = await _entered(stack, rabbitmq_server()) if brokered else None
        url = await postgres.create_database(_DATABASE)
        settings = {"lease_s": f"{lease_s:g}", "log_level": "info", **({"broker_url": broker.url()} if broker else {})}
        them = await _entered(stack, cluster(folder, database_url=url, **settings))
        wires: dict[str, Proxy] = {}
        for role, count in (("api", APIS), ("scheduler", SCHEDULERS)):
            for number in range(1, count + 1):
                name, own = f"{role}-{number}", {}
                if wired:
                    wires[name] = await stack.enter_async_context(proxy(postgres.port))
                    own = {"database_url": postgres.url(_DATABASE, port=wires[name].port)}
                them.add(name, role=role, **own)
        await asyncio.to_thread(them.start)
        await asyncio.to_thread(register_hosts, them["api-1"].url, hosts=HOSTS, cores=CORES)
        watch = await stack.enter_async_context(watching(url))
        urls = [process.url for process in them if process.name.startswith("api")]
        load = await stack.enter_async_context(load_on(urls, folder, clients=clients, seed=seed))
        made = World(
            folder=folder, url=url, lease_s=lease_s, postgres=postgres, broker=broker, cluster=them,
            wires=wires, watch=watch, load=load,
        )  # fmt: skip
        await watch.next_placement(after_s=0, within_s=PATIENCE_S)
        yield made


async def _entered(stack: contextlib.AsyncExitStack, block: contextlib.AbstractContextManager[_T]) -> _T:
    """Starting and ending servers takes a while: beside the loop."""
    entered = await asyncio.to_thread(block.__enter__)
    stack.push_async_callback(asyncio.to_thread, block.__exit__, None, None, None)
    return entered


def anywhere(chance: random.Random, seconds: float) -> Awaitable[None]:
    """A fault may come at any moment of a round."""
    return asyncio.sleep(chance.random() * seconds)
