"""Whoever kills, stops, cuts off and restarts, at the rates of the seed's weather."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from virtflow.testing.simulation.broker import NAME as BROKER
from virtflow.testing.simulation.broker import BrokerServer
from virtflow.testing.simulation.database import NAME as DATABASE
from virtflow.testing.simulation.database import DatabaseServer
from virtflow.testing.simulation.network import Network
from virtflow.testing.simulation.process import STOPPED_LEASES, Process
from virtflow.testing.simulation.trace import Trace
from virtflow.testing.simulation.weather import AT_ANY_TIME, Weather

CUT_S = (0.1, 15.0)
AWAY_S = (0.1, 3.0)
WALL_MS = (1, 1_000, 3_600_000, 365 * 86_400_000)


class Nemesis:
    def __init__(
        self,
        *,
        processes: Sequence[Process],
        database: DatabaseServer,
        broker: BrokerServer | None,
        network: Network,
        weather: Weather,
        trace: Trace,
        chance: Random,
        lease_s: float,
    ) -> None:
        self._processes = processes
        self._database = database
        self._broker = broker
        self._network = network
        self._weather = weather
        self._trace = trace
        self._chance = chance
        self._lease_s = lease_s
        self._deeds: dict[str, Callable[[Process], bool]] = {
            "process killed": self._kill,
            "machine lost": self._lose_machine,
            "process told to stop": self._tell_to_stop,
            "process stopped for a while": self._stop,
            "process cut off from the database": lambda process: self._cut(process, DATABASE),
            "process cut off from the broker": lambda process: self._cut(process, BROKER),
            "database restarted": lambda _: self._restart_database(),
            "database sessions ended": lambda _: self._end_sessions(),
            "broker restarted": lambda _: self._restart_broker(),
            "wall clock moved": self._move_wall,
            "leader killed": lambda _: self._kill_leader(),
            "leader stopped for a while": lambda _: self._stop_leader(),
        }

    async def rage(self) -> None:
        """Until cancelled."""
        rates = {fault: rate for fault, rate in self._weather.rates.items() if fault in AT_ANY_TIME}
        if not rates:
            return
        faults = list(rates)
        total = sum(rates.values())
        while True:
            await asyncio.sleep(self._chance.expovariate(total))
            fault = self._chance.choices(faults, weights=[rates[one] for one in faults])[0]
            process = self._chance.choice(self._processes)
            if self._deeds[fault](process):
                self._trace.fault(process.place.name, fault)

    def _kill(self, process: Process) -> bool:
        return process.kill()

    def _kill_leader(self) -> bool:
        return any(process.kill() for process in self._processes if process.is_leading)

    def _stop_leader(self) -> bool:
        return any(self._stop(process) for process in self._processes if process.is_leading)

    def _lose_machine(self, process: Process) -> bool:
        return process.kill(with_machine=True)

    def _tell_to_stop(self, process: Process) -> bool:
        process.tell_to_stop()
        return True

    def _stop(self, process: Process) -> bool:
        if process.place.is_stopped:
            return False
        process.stop_for(self._lease_s * self._chance.uniform(*STOPPED_LEASES))
        return True

    def _cut(self, process: Process, server: str) -> bool:
        if server == BROKER and self._broker is None:
            return False
        name = process.place.name
        if server == DATABASE and process.is_leading:
            self._trace.sight("leader cut off from the database")
        self._network.cut(name, server)
        self._network.after(self._chance.uniform(*CUT_S), lambda: self._network.mend(name, server))
        return True

    def _restart_database(self) -> bool:
        if not self._database.is_up:
            return False
        self._database.go_down()
        self._network.after(self._chance.uniform(*AWAY_S), self._database.come_up)
        return True

    def _end_sessions(self) -> bool:
        self._database.end_sessions()
        return True

    def _restart_broker(self) -> bool:
        if self._broker is None or not self._broker.is_up:
            return False
        self._broker.go_down()
        self._network.after(self._chance.uniform(*AWAY_S), self._broker.come_up)
        return True

    def _move_wall(self, process: Process) -> bool:
        process.move_wall(self._chance.choice((-1, 1)) * self._chance.choice(WALL_MS))
        return True
