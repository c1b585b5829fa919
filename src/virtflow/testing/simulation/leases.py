"""The lease rows of the simulated server: in a database of their own, for they wait for nobody's transaction."""

from collections.abc import Callable, Sequence
from typing import Any

import apsw

from virtflow.store.session import Row
from virtflow.store.sqlite_session import bindings
from virtflow.store.statements import statements
from virtflow.testing.simulation.network import Wire
from virtflow.testing.simulation.trace import Trace

NAMES = frozenset({"lease_by_name", "leases", "add_lease", "take_lease", "renew_lease", "leave_lease", "note_lease"})
#: what the embedded database has no word for, and PostgreSQL has: sessions that others can see, and its own clock
_IN_ITS_WORDS = (
    (", 1, lease.since_ms", ", attended(lease.session), lease.since_ms"),
    ("VALUES ($1, $2, 1, 1, '',", "VALUES ($1, $2, 1, 1, my_session(),"),
    ("VALUES ($1, $2, $3, 1, '',", "VALUES ($1, $2, $3, 1, my_session(),"),
    ("beat = beat + 1, session = '', since_ms =", "beat = beat + 1, session = my_session(), since_ms ="),
    ("CAST(unixepoch('subsec') * 1000 AS INTEGER)", "now_ms()"),
)


class LeaseRows:
    def __init__(
        self, make_table: Callable[[apsw.Connection], None], *, now_ms: Callable[..., int], trace: Trace
    ) -> None:
        self._trace = trace
        self._connection = apsw.Connection(":memory:")
        make_table(self._connection)
        self._sessions: dict[str, Wire] = {}
        self._asking: Wire | None = None
        self._connection.create_scalar_function("attended", self._is_attended, 1)
        self._connection.create_scalar_function("my_session", self._my_session, 0)
        self._connection.create_scalar_function("now_ms", now_ms, 0)
        self._sql = {name: _in_its_words(statements("sqlite")[name]) for name in NAMES}

    def run(self, wire: Wire, name: str, arguments: Sequence[Any]) -> Sequence[Row]:
        self._asking = wire
        if name == "take_lease":
            self._see_why(office=arguments[1])
        return self._connection.execute(self._sql[name], bindings(arguments)).fetchall()

    def copy_into(self, other: apsw.Connection) -> None:
        """For whoever judges the whole database at the end."""
        rows = self._connection.execute("SELECT * FROM lease").fetchall()
        for row in rows:
            other.execute(f"INSERT INTO lease VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608  # only marks

    def close(self) -> None:
        self._connection.close()

    def _see_why(self, office: str) -> None:
        seen = self._connection.execute("SELECT holder, session FROM lease WHERE name = $1", (office,)).get
        if seen and seen[0]:
            self._trace.sight(
                "office taken after the lease" if self._is_attended(seen[1]) else "office taken by a hint"
            )

    def _is_attended(self, *session: Any) -> bool:
        [name] = session
        wire = self._sessions.get(name)
        return name == "" or (wire is not None and not wire.is_broken)

    def _my_session(self, *_nothing: Any) -> str:
        assert self._asking is not None
        name = next((name for name, wire in self._sessions.items() if wire is self._asking), "")
        if not name:
            name = f"session {len(self._sessions) + 1}"
            self._sessions[name] = self._asking
        return name


def _in_its_words(sql: str) -> str:
    for embedded, shared in _IN_ITS_WORDS:
        sql = sql.replace(embedded, shared)
    return sql
