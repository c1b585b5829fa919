"""A database server that several simulated processes share: real SQL on SQLite, sessions, locks, news, restarts.

Statements outside of a transaction, and plain reads inside, see what is committed (as on PostgreSQL at READ COMMITTED).
The first statement that writes, or reads for update or share, takes the one lock of this server until the commit.
"""

import collections
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import apsw

from virtflow.model.errors import Unavailable
from virtflow.store import migrations
from virtflow.store.session import Row
from virtflow.store.sqlite import MEMORY_FILE_SYSTEM
from virtflow.store.sqlite_session import bindings, connect, failure
from virtflow.store.statements import statements
from virtflow.testing.simulation.leases import NAMES as LEASE_STATEMENTS
from virtflow.testing.simulation.leases import LeaseRows
from virtflow.testing.simulation.network import Network, Reply, Wire
from virtflow.testing.simulation.place import Place, wall_ms
from virtflow.testing.simulation.trace import Trace
from virtflow.testing.simulation.weather import Weather

#: as our store asks of PostgreSQL: no statement takes longer, and no transaction rests longer in between
STATEMENT_S = 10.0
#: how often the server looks for those
LOOK_S = 0.5
NAME = "database"

_LOCKS = re.compile(r"\b(FOR (UPDATE|SHARE|NO KEY UPDATE)|INSERT INTO|UPDATE \w+ SET|DELETE FROM|COPY \w+)\b")
_TELLS = "number_events"
_ANSWERS = "add_answer"


@cache
def _takes_lock(sql: str) -> bool:
    return _LOCKS.search(sql) is not None


class Session:
    """A transaction as the server sees it."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.holds_lock = False
        self.is_over = False
        #: a statement failed: nothing but its end is possible
        self.has_failed = False
        self.tells = 0
        #: who is answered by it, to which Idempotency-Key
        self.answers: list[tuple[str, str]] = []
        self.last_used_s = 0.0
        self.is_busy = False


class DatabaseServer:
    #: the constraints of the tables hold
    heeds_checks = True

    def __init__(self, *, network: Network, weather: Weather, trace: Trace, clock: Callable[[], float], chance: Random):
        self.network = network
        self._weather = weather
        self._trace = trace
        self._clock = clock
        self._folder = Path(
            tempfile.mkdtemp(prefix="virtflow-", dir=MEMORY_FILE_SYSTEM if MEMORY_FILE_SYSTEM.is_dir() else None)
        )
        self.file = self._folder / "virtflow.db"
        self._writer = connect(self.file, reading=False)
        for pragma, value in (("journal_mode", "wal"), ("synchronous", "off"), ("wal_autocheckpoint", 0)):
            self._writer.pragma(pragma, value)
        _template().backup_into(self._writer)
        if not self.heeds_checks:
            self._writer.pragma("ignore_check_constraints", 1)
        history = "UPDATE setting SET value = $1 WHERE key = 'history_id'"
        self._writer.execute(history, (f"{chance.getrandbits(64):016x}",))
        self._reader = connect(self.file, reading=True)
        self._idle: list[apsw.Connection] = []
        self._sql = statements("sqlite")
        self._there = statements("postgresql")
        self._holder: Session | None = None
        self._queue: collections.deque[tuple[Session, Callable[[], None], float]] = collections.deque()
        self._sessions: dict[Wire, Session] = {}
        self._listeners: dict[Wire, tuple[Place, Callable[[], None]]] = {}
        self.wires: dict[Wire, None] = {}
        self._leases = LeaseRows(_template().backup_into, now_ms=lambda *_: wall_ms(clock()), trace=trace)
        self.is_up = True
        self.commits = 0
        #: when the answer to a key became true
        self.answered_s: dict[tuple[str, str], float] = {}

    # ── wires ─────────────────────────────────────────────────────────────────────────────────────

    def connect(self, place: Place) -> Wire:
        wire = Wire(self.network, place, NAME, hung_up=self._hung_up)
        self.wires[wire] = None
        return wire

    def _hung_up(self, wire: Wire) -> None:
        self.wires.pop(wire, None)
        self._listeners.pop(wire, None)
        session = self._sessions.pop(wire, None)
        if session is not None:
            self._end(session)

    def go_down(self) -> None:
        self.is_up = False
        self.end_sessions()

    def come_up(self) -> None:
        self.is_up = True

    def end_sessions(self) -> None:
        for wire in list(self.wires):
            wire.break_()

    def lose_machine(self, place: Place) -> None:
        """Its connections stay open as far as the server knows."""
        for wire in self.wires:
            if wire.place is place:
                wire.is_silent = True

    def lose_process(self, place: Place) -> None:
        for wire in [wire for wire in self.wires if wire.place is place]:
            wire.drop()

    # ── statements ────────────────────────────────────────────────────────────────────────────────

    def read(self, reply: Reply, name: str, arguments: Sequence[Any]) -> None:
        """One statement by itself."""
        if name in LEASE_STATEMENTS:
            reply.give(self._leases.run(reply.wire, name, arguments))
            return
        try:
            rows = self._reader.execute(self._sql[name], bindings(arguments)).fetchall()
        except apsw.Error as error:
            reply.fail(failure(error))
            return
        reply.give(rows)

    def run(self, wire: Wire, reply: Reply, name: str, arguments: Sequence[Any]) -> None:
        """A statement of a transaction, which the first one begins."""
        self._do(wire, reply, name, lambda: self._rows(self._session(wire), name, arguments))

    def run_each(self, wire: Wire, reply: Reply, name: str, rows: Sequence[Row]) -> None:
        self._do(wire, reply, name, lambda: self._each(self._session(wire), name, rows))

    def commit(self, wire: Wire, reply: Reply) -> None:
        session = self._sessions.pop(wire, None)
        if session is None:  # nothing was asked of it
            reply.give("COMMIT")
            return
        if session.has_failed:
            self._end(session)
            reply.give("ROLLBACK")
            return
        session.is_over = True
        if session.holds_lock:
            self._writer.execute("COMMIT")
            self.commits += 1
            self._trace.say(session.who, f"committed {self.commits}")
            self.answered_s |= dict.fromkeys(session.answers, self._clock())
            self._release(session)
            if session.tells:
                self._tell()
        reply.give("COMMIT")

    def roll_back(self, wire: Wire, reply: Reply) -> None:
        self._end(self._sessions.pop(wire, None))
        reply.give("ROLLBACK")

    def _session(self, wire: Wire) -> Session:
        session = self._sessions.get(wire)
        if session is None:
            session = self._sessions[wire] = Session(wire.place.name)
        return session

    def _do(self, wire: Wire, reply: Reply, name: str, work: Callable[[], Sequence[Row]]) -> None:
        session = self._session(wire)
        session.last_used_s = self._clock()
        if session.has_failed:
            reply.fail(Unavailable("current transaction is aborted"))
            return

        def go_on() -> None:
            session.is_busy = False
            session.last_used_s = self._clock()
            try:
                rows = work()
            except apsw.Error as error:
                session.has_failed = True
                self._trace.say(session.who, f"{name} failed: {error}")
                reply.fail(failure(error))
                return
            reply.give(rows)

        if session.holds_lock or not _takes_lock(self._there[name]):
            go_on()
            return
        session.is_busy = True

        def begin() -> None:
            if session.is_over:
                self._release(session)
                return
            self._writer.execute("BEGIN IMMEDIATE")
            go_on()

        self._lock(session, begin, lambda: reply.fail(Unavailable("the database did not answer in time")))

    def _rows(self, session: Session, name: str, arguments: Sequence[Any]) -> Sequence[Row]:
        if name == _TELLS:
            session.tells += 1
        connection = self._writer if session.holds_lock else self._reader
        return connection.execute(self._sql[name], bindings(arguments)).fetchall()

    def _each(self, session: Session, name: str, rows: Sequence[Row]) -> list[Row]:
        refused = []
        sql, writer = self._sql[name], self._writer
        for row in rows:
            writer.execute(sql, row)
            if not writer.changes():
                refused.append(row)
        if name == _ANSWERS:
            session.answers += [(row[0], row[-1]) for row in rows]
        if refused:
            self._trace.sight(f"{name} refused some")
        return refused

    # ── the lock ──────────────────────────────────────────────────────────────────────────────────

    def _lock(self, session: Session, then: Callable[[], None], too_late: Callable[[], None]) -> None:
        if self._holder is None:
            self._holder, session.holds_lock = session, True
            then()
            return
        self._trace.sight("transaction waited for another")
        waiting = (session, then, self._clock())
        self._queue.append(waiting)

        def give_up() -> None:
            if waiting in self._queue:
                self._queue.remove(waiting)
                session.has_failed, session.is_busy = True, False
                self._trace.sight("statement timed out")
                too_late()

        self.network.after(STATEMENT_S, give_up)

    def _release(self, session: Session) -> None:
        session.holds_lock = False
        self._holder = None
        if self._queue:
            following, then, _ = self._queue.popleft()
            self._holder, following.holds_lock = following, True
            then()

    def _end(self, session: Session | None) -> None:
        """Nothing of it has happened."""
        if session is None or session.is_over:
            return
        session.is_over = True
        self._queue = collections.deque(entry for entry in self._queue if entry[0] is not session)
        if session.holds_lock:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            self._release(session)

    def watch(self) -> None:
        """Ends transactions that rest, again and again: whoever was stopped in one must not hold it for ever."""
        now = self._clock()
        for wire, session in list(self._sessions.items()):
            if not session.is_busy and now - session.last_used_s > STATEMENT_S:
                self._trace.sight("resting transaction ended by the server")
                wire.break_()
        self.network.after(LOOK_S, self.watch)

    # ── news and snapshots ────────────────────────────────────────────────────────────────────────

    def listen(self, wire: Wire, reply: Reply, tell: Callable[[], None]) -> None:
        self._listeners[wire] = (wire.place, tell)
        reply.give(None)

    def _tell(self) -> None:
        for wire, (place, tell) in self._listeners.items():
            if self._weather.comes("news lost"):
                self._trace.fault(place.name, "news lost")
                continue
            wire.carry_back(lambda place=place, tell=tell: self.network.run_at(place, tell))  # type: ignore[misc]

    def open_snapshot(self) -> apsw.Connection:
        connection = self._idle.pop() if self._idle else connect(self.file, reading=True)
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM setting LIMIT 1").fetchall()  # from now on it sees this
        return connection

    def read_snapshot(self, connection: apsw.Connection, name: str, arguments: Sequence[Any]) -> Sequence[Row]:
        return connection.execute(self._sql[name], bindings(arguments)).fetchall()

    def close_snapshot(self, connection: apsw.Connection) -> None:
        connection.execute("ROLLBACK")
        self._idle.append(connection)

    def settle(self) -> None:
        """Everything stands in one file, to be judged."""
        if self._holder is None:
            self._writer.execute("DELETE FROM lease")
            self._leases.copy_into(self._writer)

    def close(self) -> None:
        self._leases.close()
        for connection in (self._writer, self._reader, *self._idle):
            connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class _Template:
    """A database with its tables made, to be copied: making them takes longer than most simulations."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")
        for step in migrations.steps("sqlite"):
            with self._connection:
                self._connection.execute(step.sql)
        self._connection.execute("INSERT INTO setting (key, value) VALUES ('history_id', '')")

    def backup_into(self, other: apsw.Connection) -> None:
        with other.backup("main", self._connection, "main") as backup:
            backup.step()


@cache
def _template() -> _Template:
    return _Template()
