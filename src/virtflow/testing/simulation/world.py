"""One seed: a small data centre, some bad seconds, then peace; and whether everything promised held."""

import asyncio
import contextlib
import dataclasses
import gc
import traceback
from collections.abc import Iterator, MutableMapping, Sequence
from random import Random
from typing import Any

import structlog

from virtflow.testing.simulation.broker import BrokerServer
from virtflow.testing.simulation.bus import Bus
from virtflow.testing.simulation.client import Client
from virtflow.testing.simulation.database import DatabaseServer
from virtflow.testing.simulation.history import History
from virtflow.testing.simulation.judge import Evidence, judge_bus, judge_history, not_settled
from virtflow.testing.simulation.loop import Loop, StuckError, make_loop
from virtflow.testing.simulation.nemesis import Nemesis
from virtflow.testing.simulation.network import Network
from virtflow.testing.simulation.place import wall_ms
from virtflow.testing.simulation.process import Process
from virtflow.testing.simulation.theme import THEMES, THINK_S, draw
from virtflow.testing.simulation.trace import Trace
from virtflow.testing.simulation.weather import Weather

STEPS_MAX = 250_000
#: after the last fault everything must be in order within so long
PEACE_S_MAX = 60.0
LOOK_S = 0.5
#: the longest cut, and whoever was stopped the longest, are over after this
HEAL_S = 1.0


@dataclasses.dataclass(slots=True)
class Result:
    seed: int
    hash: str
    steps: int
    world_s: float
    calls: int
    violations: list[str]
    seen: dict[str, int]
    lines: list[str]


class World:
    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.seed = seed
        shape = self._chance("shape")
        self.themes = draw(self._chance("themes"))
        self.weather = Weather(self._chance("weather"), self.themes)
        self.loop = make_loop(self._chance("loop"), slice_steps=shape.choice((0.5, 1.0, 4.0, 16.0)))
        self.trace = Trace(lambda: self.loop.world_s, keep=keep_trace)
        self.loop.on_failure = self._unhandled
        self.history = History()
        self.network = Network(self.loop, self.weather, self.trace)
        themes = [THEMES[name] for name in sorted(self.themes)]
        processes = min([shape.choice((1, 2, 2, 3, 3, 4)), *(theme.processes_max for theme in themes)])
        self.processes_count = max([processes, *(theme.processes_min for theme in themes)])
        self.hosts = min([shape.randint(1, 6), *(theme.hosts_max for theme in themes)])
        self.clients_count = max([shape.randint(1, 4), *(theme.clients_min for theme in themes)])
        self.think_s = min([THINK_S, *(theme.think_s for theme in themes)])
        self.calls = shape.choice((5, 10, 20, 40))
        #: what clients do most, if anything
        likes = [3.0, 1.0, 1.0, 1.0, 1.0, 1.0]
        likes[shape.randrange(6)] *= shape.choice((1.0, 3.0, 10.0))
        self.likes: Sequence[float] = likes
        #: how large hosts become
        self.sizes: Sequence[int] = (2, 4, 6, 8)
        for theme in themes:
            self.likes, self.sizes = theme.likes or self.likes, theme.sizes or self.sizes
        self.patience_s = shape.choice((3.0, 3.0, 10.0))
        self.has_broker = shape.random() < 0.6
        self.flags = {
            "database_url": "postgresql://simulated/virtflow",
            "lease_s": "2",
            "tick_s": shape.choice(("0.2", "1", "5")),
            "retry_wait_s": "0.3",
            "retries_max": "3",
            "strategy": shape.choice(("least_loaded", "round_robin", "best_fit")),
        }

    def _chance(self, what: str) -> Random:
        return Random(f"{self.seed} {what}")

    def run(self) -> Result:
        gc.disable()  # when it comes depends on what this interpreter did before
        try:
            violations = self._run()
        finally:
            gc.enable()
        return Result(
            seed=self.seed,
            hash=self.trace.digest(self.schedule),
            steps=self.steps,
            world_s=self.world_s,
            calls=len(self.history.calls),
            violations=violations,
            seen=dict(self.trace.seen),
            lines=self.trace.lines,
        )

    def _run(self) -> list[str]:
        database = DatabaseServer(
            network=self.network,
            weather=self.weather,
            trace=self.trace,
            clock=lambda: self.loop.world_s,
            chance=self._chance("database"),
        )
        try:
            with logs_into(self.trace, self.loop):
                try:
                    return self.loop.run_until(self._live(database), steps_max=STEPS_MAX)
                except StuckError as error:
                    return [f"stuck: {error}"]
                finally:
                    self._bury()
        finally:
            database.close()

    async def _live(self, database: DatabaseServer) -> list[str]:
        for name in sorted(self.themes):
            self.trace.sight(f"theme: {name}")
            self.trace.say("world", f"theme {name}: {THEMES[name].text}")
        broker = (
            BrokerServer(network=self.network, weather=self.weather, trace=self.trace, chance=self._chance("broker"))
            if self.has_broker
            else None
        )
        bus = Bus(network=self.network, weather=self.weather, trace=self.trace)
        processes = [self._process(number, database, broker, bus) for number in range(1, self.processes_count + 1)]
        database.watch()
        for process in processes:
            process.start()
        clients = [self._client(number, processes) for number in range(1, self.clients_count + 1)]
        nemesis = Nemesis(
            processes=processes,
            database=database,
            broker=broker,
            network=self.network,
            weather=self.weather,
            trace=self.trace,
            chance=self._chance("nemesis"),
            lease_s=float(self.flags["lease_s"]),
        )
        raging = asyncio.ensure_future(nemesis.rage())
        await clients[0].register()
        await asyncio.gather(*(client.work(self.calls) for client in clients))
        raging.cancel()
        await self._heal(database, broker, processes)
        return await self._judge(database, bus, processes)

    async def _heal(self, database: DatabaseServer, broker: BrokerServer | None, processes: list[Process]) -> None:
        self.trace.say("world", "from now on all is well")
        self.weather.clear()
        self.network.mend_all()
        database.come_up()
        if broker:
            broker.come_up()
        for process in processes:
            was_ahead, process.place.wall_ms = process.place.wall_ms > 0, 0
            if was_ahead:  # alarms that it has in mind would ring too late; real ones go by the database's clock
                process.kill()
            self.loop.continue_place(process.place)
        await asyncio.sleep(HEAL_S)

    async def _judge(self, database: DatabaseServer, bus: Bus, processes: list[Process]) -> list[str]:
        began_s = self.loop.world_s
        while True:
            database.settle()
            evidence = Evidence(database.file, answered_s=database.answered_s)
            try:
                await evidence.read()
                missing = not_settled(
                    processes, evidence, bus, newest=await evidence.newest_event(), now_ms=wall_ms(self.loop.world_s)
                )
                if missing and self.loop.world_s - began_s < PEACE_S_MAX:
                    await asyncio.sleep(LOOK_S)
                    continue
                violations = [f"no peace: {one}" for one in missing]
                violations += await evidence.violations()
                violations += judge_history(self.history, evidence)
                violations += judge_bus(bus, evidence)
                violations += [f"unexpected: {one}" for one in self.trace.unexpected]
                self.trace.say("world", f"judged: {len(violations)} violations, {len(evidence.events)} events")
                return violations
            finally:
                evidence.close()

    def _bury(self) -> None:
        self.steps, self.schedule, self.world_s = self.loop.steps, self.loop.schedule, self.loop.world_s
        self.trace.is_closed = self.network.is_over = True
        self.loop.bury()

    def _process(self, number: int, database: DatabaseServer, broker: BrokerServer | None, bus: Bus) -> Process:
        return Process(
            f"p{number}",
            number=number,
            loop=self.loop,
            database=database,
            broker=broker,
            bus=bus,
            weather=self.weather,
            trace=self.trace,
            chance=self._chance(f"process {number}"),
            flags=self.flags,
        )

    def _client(self, number: int, processes: list[Process]) -> Client:
        return Client(
            f"c{number}",
            processes=processes,
            network=self.network,
            weather=self.weather,
            history=self.history,
            trace=self.trace,
            chance=self._chance(f"client {number}"),
            clock=lambda: self.loop.world_s,
            hosts=self.hosts,
            likes=self.likes,
            patience_s=self.patience_s,
            sizes=self.sizes,
            think_s=self.think_s,
        )

    def _unhandled(self, context: dict[str, Any]) -> None:
        if self.trace.is_closed:
            return
        error = context.get("exception")
        self.trace.unexpected.append(f"{context.get('message')}: {type(error).__name__}: {error}")


@contextlib.contextmanager
def logs_into(trace: Trace, loop: Loop) -> Iterator[None]:
    """What the product logs is part of the trace, and a sight."""
    before = structlog.get_config()

    def take(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
        failure = event.get("exc_info")
        trace.sight(f"log: {event['event']}")
        trace.say("log", f"{event['event']} {event.get('error', '') if not failure else ''}".rstrip())
        if failure and not trace.is_closed and event["event"] in _DEFECTS:
            trace.unexpected.append(f"{event['event']}: {traceback.format_exc(limit=-3)}")
        raise structlog.DropEvent

    structlog.configure(processors=[take], wrapper_class=structlog.BoundLogger, cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)


#: logged only when something happened that should not
_DEFECTS = frozenset({"round.failed", "scheduler.failed", "task.poisoned", "loop.failed"})


def run_seed(seed: int, *, keep_trace: bool = False) -> Result:
    return World(seed, keep_trace=keep_trace).run()
