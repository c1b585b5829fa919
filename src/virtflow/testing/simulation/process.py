"""A simulated process: one whole service, built by `main.service.build`, with its lives, deaths and restarts."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from random import Random
from typing import Any

from virtflow.config import Config, load_config
from virtflow.control.house import House
from virtflow.engine import strategies
from virtflow.main import Service, build
from virtflow.model.errors import VirtflowError
from virtflow.testing.simulation.broker import BrokerServer, SimulatedQueue
from virtflow.testing.simulation.bus import Bus, SimulatedSink
from virtflow.testing.simulation.database import DatabaseServer
from virtflow.testing.simulation.loop import Loop
from virtflow.testing.simulation.place import Place, PlaceClock
from virtflow.testing.simulation.store import Line, SimulatedStore
from virtflow.testing.simulation.trace import Trace
from virtflow.testing.simulation.weather import Weather

#: a supervisor starts again what ended
START_AGAIN_S = (0.1, 2.0)
#: a stopped process wakes up after so many leases
STOPPED_LEASES = (0.2, 4.0)
DRIFT_OFFSET_S_MAX = 1_000_000.0


@cache
def _config(flags: tuple[tuple[str, str], ...]) -> Config:
    return load_config(environ={"HOME": "/nowhere"}, known_strategies=strategies.names(), flags=dict(flags))


class Process:
    def __init__(
        self,
        name: str,
        *,
        number: int,
        loop: Loop,
        database: DatabaseServer,
        broker: BrokerServer | None,
        bus: Bus,
        weather: Weather,
        trace: Trace,
        chance: Random,
        flags: Mapping[str, str],
    ) -> None:
        self.name = name
        self.number = number
        self._loop = loop
        self._database = database
        self._broker = broker
        self._bus = bus
        self._weather = weather
        self._trace = trace
        self._chance = chance
        self.config = _config(tuple(sorted(flags.items())))
        self.lives = 0
        self.place = Place(name, number=number)
        self.service: Service | None = None
        #: open for requests
        self.house: House | None = None
        self._told_to_stop = asyncio.Event()
        self._requests: set[asyncio.Task[Any]] = set()

    @property
    def is_leading(self) -> bool:
        return self.service is not None and self.service.scheduler.is_leading

    # ── lives ─────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        self.lives += 1
        drift = self._weather.drift
        self.place = Place(
            f"{self.name}.{self.lives}",
            number=self.number,
            rate=1 + self._chance.uniform(-drift, drift),
            offset_s=self._chance.uniform(0, DRIFT_OFFSET_S_MAX),
            wall_ms=self.place.wall_ms,
        )
        self._told_to_stop = asyncio.Event()
        self._trace.say(self.place.name, "starts")
        self._loop.create_task(self._live(), context=self.place.context)

    async def _live(self) -> None:
        try:
            self.service = self._build()
            async with self.service.running() as house:
                self.house = house
                await self._told_to_stop.wait()
                self.house = None
                await self._finish_requests()
            self._trace.sight("process stopped in order")
        except VirtflowError as error:
            self._trace.sight("process failed to start or to stop")
            self._trace.say(self.place.name, f"failed: {error.error_code}")
        except Exception as error:
            self._trace.unexpected.append(f"a process ended: {type(error).__name__}: {error}")
        finally:
            self.house = None
        self._trace.say(self.place.name, "ended")
        self.service = None
        self._database.lose_process(self.place)
        if self._broker:
            self._broker.lose_process(self.place)
        self._start_again()

    async def _finish_requests(self) -> None:
        if self._requests:
            await asyncio.wait(self._requests, timeout=5.0)

    def _build(self) -> Service:
        clock = PlaceClock(self.place, self._loop)
        line = Line(self._database, self.place, self._weather, self._trace, stop=self._stop_at_a_call, kill=self.kill)
        return build(
            self.config,
            store=SimulatedStore(line, origin=self.place.name),
            inventories=[],
            clock=clock,
            queue=SimulatedQueue(self._broker, self.place, self._trace) if self._broker else None,
            sinks=[SimulatedSink(self._bus, self.place, self._trace)],
            entropy=self._chance.randbytes,
        )

    def _start_again(self) -> None:
        self._database.network.after(self._chance.uniform(*START_AGAIN_S), self.start)

    # ── what others do to it ──────────────────────────────────────────────────────────────────────

    def kill(self, *, with_machine: bool = False) -> bool:
        place = self.place
        if place.is_dead or self.service is None:
            return False
        self._loop.kill_place(place)
        self.service = self.house = None
        self._requests = set()
        if with_machine:
            self._database.lose_machine(place)
        else:
            self._database.lose_process(place)
        if self._broker:
            self._broker.lose_process(place)
        self._start_again()
        return True

    def tell_to_stop(self) -> None:
        self._told_to_stop.set()

    def _stop_at_a_call(self) -> None:
        if not self.place.is_stopped:
            self.stop_for(self.config.lease_s * self._chance.uniform(*STOPPED_LEASES))

    def stop_for(self, seconds: float) -> None:
        place = self.place
        self._loop.stop_place(place)
        self._database.network.after(seconds, lambda: self._loop.continue_place(place))

    def move_wall(self, milliseconds: int) -> None:
        self.place.wall_ms += milliseconds

    # ── requests ──────────────────────────────────────────────────────────────────────────────────

    def serve(self, do: Callable[[House], Awaitable[Any]], answer: Callable[[Any, Exception | None], None]) -> Any:
        """Does it in this process; what comes out goes to `answer`. The task, so that the client may hang up."""
        house = self.house
        if house is None:
            answer(None, ConnectionRefusedError())
            return None
        task = self._loop.create_task(self._answer(do, house, answer), context=self.place.context.copy())
        self._requests.add(task)
        task.add_done_callback(self._requests.discard, context=self.place.context)
        return task

    async def _answer(
        self, do: Callable[[House], Awaitable[Any]], house: House, answer: Callable[[Any, Exception | None], None]
    ) -> None:
        try:
            result = await do(house)
        except VirtflowError as error:
            answer(None, error)
        except Exception as error:
            self._trace.say(self.place.name, f"UNEXPECTED {type(error).__name__}: {error}")
            self._trace.unexpected.append(f"{type(error).__name__}: {error}")
            answer(None, error)
        else:
            answer(result, None)
