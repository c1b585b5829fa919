"""The store of a simulated process: all nouns and their SQL are the real ones, only the way to the server is not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from virtflow.model.errors import OutcomeUnknown, Unavailable
from virtflow.store.contract import RetryTransaction
from virtflow.store.hosts import read_dimensions
from virtflow.store.housekeeping import Housekeeping
from virtflow.store.interned import Interned
from virtflow.store.leases import Leases
from virtflow.store.leases import Line as LeaseLine
from virtflow.store.postgres import ANSWER_MARGIN_S
from virtflow.store.postgres_session import ConnectionLost
from virtflow.store.records import Reads, Writes
from virtflow.store.session import Reader, Row, Snapshots, to_the_end
from virtflow.testing.simulation.database import STATEMENT_S, DatabaseServer
from virtflow.testing.simulation.network import Broken, Reply, Wire, fulfil
from virtflow.testing.simulation.place import Place
from virtflow.testing.simulation.trace import Trace
from virtflow.testing.simulation.weather import Weather

#: a connection that listens is asked now and then whether it lives: a cut cable says nothing
ASK_LISTENER_S = 10.0
_LOOKS_AT_THE_FENCE = "fence"


class Line:
    """What a process has in its hand when it talks to the database: calls with a deadline and faults on the way."""

    def __init__(
        self,
        server: DatabaseServer,
        place: Place,
        weather: Weather,
        trace: Trace,
        *,
        stop: Callable[[], object],
        kill: Callable[[], object],
    ) -> None:
        """`stop`, `kill`: what may happen to the process while a call is under way."""
        self._stop = stop
        self._kill = kill
        self.server = server
        self.place = place
        self.weather = weather
        self.trace = trace

    def wire(self) -> Wire:
        if not self.server.is_up:
            raise ConnectionLost("the database does not answer: connection refused", remedy="try again in a moment")
        return self.server.connect(self.place)

    async def call(
        self, wire: Wire, what: str, do: Callable[[Reply], None], *, is_commit: bool = False, leads: bool = False
    ) -> Any:
        """`leads`: in a transaction that has looked at the fence."""
        who = self.place.name
        loses_call = self._comes("database call lost on its way")
        endless = not loses_call and self._comes("database call without end")
        loses_reply = not loses_call and (
            self._comes("answer to a commit lost") if is_commit else self._comes("database reply lost on its way")
        )
        late_s = self.weather.late_s() if self._comes("database call late") else 0.0
        if endless:
            wire.is_silent = True
        self.trace.say(who, what)
        if self._comes("process stopped at a call") or (leads and self._comes("leader stopped in a transaction")):
            self._stop()
        if self._comes("process killed at a call"):
            self._kill()
        try:
            async with asyncio.timeout(STATEMENT_S + ANSWER_MARGIN_S):
                return await wire.ask(do, loses_call=loses_call, loses_reply=loses_reply, late_s=late_s)
        except TimeoutError as error:
            wire.drop()
            self.trace.sight("database call timed out")
            raise Unavailable("the database did not answer in time", remedy="try again in a moment") from error
        except Broken as error:
            raise ConnectionLost("the database does not answer: it hung up", remedy="try again in a moment") from error
        except asyncio.CancelledError:
            wire.drop()  # in the middle of a statement it is of no use to anybody
            raise

    def _comes(self, fault: str) -> bool:
        comes = self.weather.comes(fault)
        if comes:
            self.trace.fault(self.place.name, fault)
        return comes


class _PoolReader:
    """Single statements, repeated once on a new connection as our store does on PostgreSQL."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._wire: Wire | None = None

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        try:
            return await self._read(name, arguments)
        except ConnectionLost:
            return await self._read(name, arguments)

    async def _read(self, name: str, arguments: Sequence[Any]) -> Sequence[Row]:
        line = self._line
        if self._wire is None or self._wire.is_broken or self._wire.is_silent:
            self._wire = line.wire()
        rows: Sequence[Row] = await line.call(self._wire, name, lambda reply: line.server.read(reply, name, arguments))
        return rows


class _SnapshotReader:
    """One state of the database. A read of it takes its time and may fail like any other."""

    def __init__(self, line: Line, wire: Wire) -> None:
        self._line = line
        self._wire = wire
        self._connection: Any = None

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        line = self._line

        def read(reply: Reply) -> None:
            if self._connection is None:
                self._connection = line.server.open_snapshot()
            reply.give(line.server.read_snapshot(self._connection, name, arguments))

        rows: Sequence[Row] = await line.call(self._wire, f"{name} (snapshot)", read)
        return rows

    def close(self) -> None:
        self._wire.drop()
        if self._connection is not None:
            self._line.server.close_snapshot(self._connection)
            self._connection = None


class _TransactionSession:
    """One transaction. After an error, and after its end, it does nothing more."""

    def __init__(self, line: Line, wire: Wire) -> None:
        self._line = line
        self._wire = wire
        self._closed: str | None = None
        self._leads = False
        self.error: Exception | None = None

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        with self._usable():
            rows: Sequence[Row] = await self._line.call(
                self._wire,
                f"tx {name}",
                lambda reply: self._line.server.run(self._wire, reply, name, arguments),
                leads=self._leads,
            )
        self._leads |= name == "fence"
        return rows

    async def each(self, name: str, rows: Sequence[Row]) -> list[Row]:
        if not rows:
            return []
        with self._usable():
            refused: list[Row] = await self._line.call(
                self._wire,
                f"tx {name} {_keys(rows)}",
                lambda reply: self._line.server.run_each(self._wire, reply, name, rows),
                leads=self._leads,
            )
        return refused

    def close(self, reason: str) -> None:
        self._closed = self._closed or reason

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        if self._closed:
            raise Unavailable(f"this transaction is over: {self._closed}")
        try:
            yield
        except (Unavailable, Exception) as error:
            self.error = error
            self.close(str(error) or type(error).__name__)
            raise


class _LeaseLine:
    """What `store/postgres_line.py` is: a session of its own, which others can see. One statement at a time."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._turn = asyncio.Lock()
        self._wire: Wire | None = None
        self._end = asyncio.Event()
        self._is_closed = False

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        async with self._turn:
            if self._wire is None or self._wire.is_broken or self._wire.is_silent:
                self._connect()
            wire, line = self._wire, self._line
            assert wire is not None
            rows: Sequence[Row] = await line.call(wire, name, lambda reply: line.server.read(reply, name, arguments))
            return rows

    def _connect(self) -> None:
        if self._is_closed:
            raise Unavailable("the store is not open")
        self._end.set()
        self._wire = self._line.wire()
        self._end = end = asyncio.Event()
        self._wire.on_break = end.set

    def end(self) -> asyncio.Event:
        if self._wire is not None and (self._wire.is_broken or self._wire.is_silent):
            self._end.set()
        return self._end

    def close(self) -> None:
        self._is_closed = True
        self._end.set()
        if self._wire is not None:
            self._wire.drop()


class SimulatedStore(Reads, Housekeeping, Leases):
    """What `store/postgres.py` is to PostgreSQL, for the simulated server."""

    def __init__(self, line: Line, *, origin: str) -> None:
        self.origin = origin
        self._way = line
        self._interned = Interned()
        self._is_open = False
        self._near: Reader = _PoolReader(line)
        self._far: Reader = _PoolReader(line)
        self._line: LeaseLine = _LeaseLine(line)
        self._snapshot: Snapshots = self._open_snapshot

    async def open(self) -> None:
        await read_dimensions(self._near, self._interned)
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False
        self._line.close()

    async def ping(self) -> None:
        self._refuse_if_closed()
        await self._near.rows("alive")

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Writes]:
        self._refuse_if_closed()
        line = self._way
        if line.weather.comes("transaction chosen as deadlock victim"):
            line.trace.fault(line.place.name, "transaction chosen as deadlock victim")
            raise RetryTransaction("two transactions waited for each other")
        wire = line.wire()
        session = _TransactionSession(line, wire)
        interned = Interned(self._interned)
        try:
            try:
                yield Writes(session, interned, self.origin)
                session.close("it has ended")
                if session.error:  # somebody has swallowed it
                    raise session.error
            except BaseException:
                session.close("it has ended")
                await self._roll_back(wire)
                raise
            await self._commit(wire)
        finally:
            wire.drop()
        self._interned.keep(interned)

    async def _commit(self, wire: Wire) -> None:
        line = self._way
        committing = asyncio.ensure_future(
            line.call(wire, "COMMIT", lambda reply: line.server.commit(wire, reply), is_commit=True)
        )
        try:
            done = await to_the_end(committing)
        except Unavailable as error:
            raise OutcomeUnknown(
                "the answer to a commit was lost", remedy="ask with the same Idempotency-Key whether it has happened"
            ) from error
        if done != "COMMIT":
            raise Unavailable("the database rolled the transaction back", remedy="try again in a moment")

    async def _roll_back(self, wire: Wire) -> None:
        if wire.is_broken or wire.is_silent:
            return
        line = self._way
        with contextlib.suppress(Unavailable):
            await line.call(wire, "ROLLBACK", lambda reply: line.server.roll_back(wire, reply))

    async def hear(self, tell: Callable[[], None]) -> None:
        self._refuse_if_closed()
        line = self._way
        wire = line.wire()
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wire.on_break = lambda: fulfil(lost, None)
        try:
            await line.call(wire, "LISTEN", lambda reply: line.server.listen(wire, reply, tell))
            tell()  # what came before we listened
            while not await _within(lost, ASK_LISTENER_S):
                await line.call(wire, "alive", lambda reply: line.server.read(reply, "alive", ()))
            raise Unavailable("the database closed the connection that listens")
        finally:
            wire.drop()

    @contextlib.asynccontextmanager
    async def _open_snapshot(self) -> AsyncIterator[Reader]:
        self._refuse_if_closed()
        reader = _SnapshotReader(self._way, self._way.wire())
        try:
            yield reader
        finally:
            reader.close()

    def _refuse_if_closed(self) -> None:
        if not self._is_open:
            raise Unavailable("the store is not open")


async def _within(waited: "asyncio.Future[None]", seconds: float) -> bool:
    await asyncio.wait([waited], timeout=seconds)
    return waited.done()


def _keys(rows: Sequence[Row]) -> str:
    """What tells the rows apart, short."""
    return " ".join(row[-1].hex()[-6:] if isinstance(row[-1], bytes) else str(row[-1]) for row in rows)
