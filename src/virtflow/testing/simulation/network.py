"""Ways between processes and servers: they take time, break, fall silent, and are cut."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from virtflow.testing.simulation.loop import Loop
from virtflow.testing.simulation.place import Place
from virtflow.testing.simulation.trace import Trace
from virtflow.testing.simulation.weather import Weather

#: so long it takes until a server hears that a process is gone, when its machine lives on
GONE_S = 0.001
#: what is under way belongs to nobody: it arrives even when its sender has died
_NOWHERE = contextvars.Context()


class Broken(Exception):
    """The connection is gone. What was asked may have been done."""


class Network:
    def __init__(self, loop: Loop, weather: Weather, trace: Trace) -> None:
        self._loop = loop
        self._weather = weather
        self._trace = trace
        #: process and server between which nothing passes
        self._cuts: set[tuple[str, str]] = set()
        #: nothing passes any more, and everybody knows at once
        self.is_over = False

    def cut(self, process: str, server: str) -> None:
        self._cuts.add((process, server))

    def mend(self, process: str, server: str) -> None:
        self._cuts.discard((process, server))

    def mend_all(self) -> None:
        self._cuts.clear()

    def is_cut(self, process: str, server: str) -> bool:
        return (process, server) in self._cuts

    def later(self, do: Callable[[], object]) -> None:
        """After a way's time, whatever became of whoever sent it."""
        self.after(self.way_s(), do)

    def way_s(self) -> float:
        return self._weather.travel_s()

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        if self.is_over:
            return
        self._loop.call_later(seconds, do, context=_NOWHERE)

    def run_at(self, place: Place, do: Callable[[], None]) -> None:
        """Arrives at a process: runs there when that has time for it, or never."""
        self._loop.call_soon(do, context=place.context)


class Reply:
    """Where a server answers; who asked may be gone by then."""

    __slots__ = ("_done", "loses", "wire")

    def __init__(self, wire: "Wire", done: "asyncio.Future[Any]", *, loses: bool) -> None:
        self.wire = wire
        self._done = done
        #: the connection breaks when the answer leaves
        self.loses = loses

    def give(self, value: Any) -> None:
        if self.loses:
            self.wire.break_()
        else:
            self.wire.carry_back(lambda: fulfil(self._done, value))

    def fail(self, error: Exception) -> None:
        if self.loses:
            self.wire.break_()
        else:
            self.wire.carry_back(lambda: _fail(self._done, error))


class Wire:
    """One connection of a process to a server. `hung_up` is told, once, at the server's end."""

    def __init__(
        self, network: Network, place: Place, server: str, *, hung_up: Callable[["Wire"], None] = lambda _: None
    ) -> None:
        self._network = network
        self.place = place
        self.server = server
        self._hung_up = hung_up
        self._waiting: list[asyncio.Future[Any]] = []
        #: at the process's end
        self.on_break: Callable[[], object] = lambda: None
        self.is_broken = False
        #: the machine is gone without a word: the server believes in the connection
        self.is_silent = False

    def ask(
        self, do: Callable[[Reply], None], *, loses_call: bool, loses_reply: bool, late_s: float = 0.0
    ) -> "asyncio.Future[Any]":
        """`do` runs at the server."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.is_broken or self._network.is_over:
            _fail(done, Broken())
            return done
        self._waiting = [one for one in self._waiting if not one.done()]
        self._waiting.append(done)
        if loses_call:
            self._network.later(self.break_)
        else:
            self._network.after(
                late_s + self._network.way_s(), lambda: self._arrive(do, Reply(self, done, loses=loses_reply))
            )
        return done

    def tell(self, do: Callable[[], None]) -> None:
        """`do` runs at the server, and nobody waits for it."""
        self._network.later(lambda: self._pass(do))

    def _arrive(self, do: Callable[[Reply], None], reply: Reply) -> None:
        if self.is_broken or self.is_silent or self._network.is_cut(self.place.name, self.server):
            return
        do(reply)

    def carry_back(self, do: Callable[[], object]) -> None:
        self._network.later(lambda: self._pass(do))

    def _pass(self, do: Callable[[], object]) -> None:
        if not (self.is_broken or self.is_silent or self._network.is_cut(self.place.name, self.server)):
            do()

    def break_(self) -> None:
        """Both ends learn of it."""
        if self.is_broken:
            return
        self.is_broken = True
        self._hung_up(self)
        waiting, self._waiting = self._waiting, []
        if not self.place.is_dead:
            for one in waiting:
                _fail(one, Broken())
            self.on_break()

    def drop(self) -> None:
        """The process lets go of it; the server hears that soon, unless the way is cut."""
        if self.is_broken:
            return
        self._waiting.clear()
        if self.is_silent or self._network.is_cut(self.place.name, self.server):
            self.is_silent = True
            return
        self._network.after(GONE_S, self.break_)


def fulfil(waiting: "asyncio.Future[Any]", value: Any) -> None:
    if not waiting.done():
        waiting.set_result(value)


def _fail(waiting: "asyncio.Future[Any]", error: Exception) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # looked at: who waited may be gone
