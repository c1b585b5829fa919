"""The shared database: many processes, one primary, every write guarded by its own condition."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import uuid4

import asyncpg

from virtflow.model.errors import OutcomeUnknown, Unavailable
from virtflow.store import migrations
from virtflow.store.failures import SETTING, UnusableDatabase
from virtflow.store.hosts import read_dimensions
from virtflow.store.housekeeping import Housekeeping
from virtflow.store.interned import Interned
from virtflow.store.leases import Leases, Line
from virtflow.store.postgres_connect import PRIMARY, connect
from virtflow.store.postgres_line import PostgresLine
from virtflow.store.postgres_session import (
    ANY_FAILURE,
    ConnectionReader,
    PoolReader,
    TransactionSession,
    begun,
    dropped_when_interrupted,
    failure,
    is_certain,
    is_lost,
)
from virtflow.store.postgres_unheard import Unheard
from virtflow.store.records import Reads, Writes
from virtflow.store.session import Reader, Snapshots, to_the_end
from virtflow.store.statements import statements
from virtflow.store.vault import CLEAR, Vault

CONNECTIONS_MAX = 10
#: Older servers are not looked after by anybody any more.
VERSION_MIN = 13
#: How long a long read may rest between two of its steps.
SNAPSHOT_REST_S = 60.0
#: Whoever is stopped or cut off in the middle of a transaction holds its rows for so long and no longer: a leader
#: holds the fence, and the next one waits for that.
REST_S_MAX = 2.0
#: The server ends a statement first; this much later we stop waiting for its answer.
ANSWER_MARGIN_S = 0.5

#: What writes finds its rows by keys, however full the tables are: one plan for all times, and never a whole table.
_BEGIN = "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off"
_BEGIN_SNAPSHOT = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
    f"SET LOCAL idle_in_transaction_session_timeout = '{SNAPSHOT_REST_S}s'"
)
MIGRATION_LOCK = 0x76697274  # "virt"
_STATEMENTS_CACHED = 256
_CHANNEL = "virtflow"
_ASK_LISTENER_S = 10.0


class PostgresStore(Reads, Housekeeping, Leases):
    """`reading`: writes nothing, makes no tables, and a replica will do."""

    def __init__(
        self,
        url: str,
        *,
        reading: bool = False,
        origin: str = "",
        vault: Vault = CLEAR,
        connections_max: int = CONNECTIONS_MAX,
        connect_s: float = 5.0,
        statement_s: float = 10.0,
    ) -> None:
        self._url = url
        self.origin = origin
        self._vault = vault
        self._is_reading = reading
        self._wanted = None if reading else PRIMARY
        self._connections_max = connections_max
        self._connect_s = connect_s
        self._statement_s = statement_s
        self._interned = Interned()
        self._statements = statements("postgresql")
        self._unheard = Unheard(wait_s=connect_s)
        self._pool: Any = None
        self._snapshot: Snapshots = self._open_snapshot

    async def open(self) -> None:
        with refusals(self._url):
            pool = await self._connect()
            try:
                await _require_version(pool, self._url)
                await (_require_newest if self._is_reading else _migrate)(pool, self._url)
            except BaseException:
                pool.terminate()
                raise
        self._pool = pool
        self._near: Reader = PoolReader(pool, self._statements, self._connect_s, before=self._unheard.settle)
        self._far = self._near
        self._line: Line = PostgresLine(
            self._url, self._statements, connect_s=self._connect_s, statement_s=self._statement_s
        )
        await read_dimensions(self._near, self._interned)

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool:
            self._line.close()
            try:
                async with asyncio.timeout(self._connect_s):
                    await pool.close()
            except ANY_FAILURE:
                pool.terminate()

    async def ping(self) -> None:
        self._refuse_if_closed()
        await self._near.rows("alive")

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Writes]:
        self._refuse_if_closed()
        await self._unheard.settle(self._pool)
        async with begun(self._pool, self._connect_s, _BEGIN) as connection:
            session = TransactionSession(connection, self._statements)
            interned = Interned(self._interned)
            try:
                yield Writes(session, interned, self.origin, self._vault)
                session.close("it has ended")
                if session.error:  # somebody has swallowed it
                    raise failure(session.error)
            except BaseException:
                session.close("it has ended")
                await _roll_back(connection)
                raise
            pid = connection.get_server_pid()
            try:
                await _commit(connection)
            except OutcomeUnknown:
                self._unheard.add(pid)
                raise
            self._interned.keep(interned)

    async def hear(self, tell: Callable[[], None]) -> None:
        self._refuse_if_closed()
        lost = asyncio.Event()
        try:
            # outside of the pool: it is in use for ever
            connection = await connect(
                self._url,
                timeout=self._connect_s,
                target_session_attrs=self._wanted,
                server_settings={"application_name": "virtflow news"},
            )
        except ANY_FAILURE as error:
            raise failure(error) from error
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(_CHANNEL, lambda *_: tell())
            tell()  # what came before we listened
            await _while_alive(connection, lost)
        except ANY_FAILURE as error:
            raise failure(error) from error
        finally:
            connection.terminate()

    def _refuse_if_closed(self) -> None:
        if self._pool is None:
            raise Unavailable("the store is not open")

    @contextlib.asynccontextmanager
    async def _open_snapshot(self) -> AsyncIterator[Reader]:
        self._refuse_if_closed()
        await self._unheard.settle(self._pool)
        async with begun(self._pool, self._connect_s, _BEGIN_SNAPSHOT) as connection:
            try:
                yield ConnectionReader(connection, self._statements)
            finally:
                await _roll_back(connection)

    async def _connect(self) -> Any:
        return await asyncpg.create_pool(
            self._url,
            min_size=1,
            max_size=self._connections_max,
            timeout=self._connect_s,
            command_timeout=self._statement_s + ANSWER_MARGIN_S,
            statement_cache_size=_STATEMENTS_CACHED,
            connect=connect,
            # asked anew for each connection: a replica would show the past
            target_session_attrs=self._wanted,
            reset=_keep_settings,
            init=_insist_on_durability,
            server_settings={
                "application_name": "virtflow",
                "statement_timeout": _milliseconds(self._statement_s),
                "idle_in_transaction_session_timeout": _milliseconds(min(REST_S_MAX, self._statement_s)),
                "default_transaction_read_only": "on" if self._is_reading else "off",
                "jit": "off",  # our statements are short, compiling them is not
                # a plan that was made for an empty table would be kept for a full one
                "plan_cache_mode": "force_custom_plan",
            },
        )


async def _while_alive(connection: Any, lost: asyncio.Event) -> None:
    """Until the connection is gone. A silent one is asked now and then: a cut cable says nothing."""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ASK_LISTENER_S):
                await lost.wait()
            raise Unavailable("the database closed the connection that listens")
        await connection.execute("SELECT 1", timeout=_ASK_LISTENER_S)


async def _commit(connection: Any) -> None:
    try:
        with dropped_when_interrupted(connection):
            done = await to_the_end(asyncio.ensure_future(connection.execute("COMMIT")))
    except ANY_FAILURE as error:
        if is_certain(error):
            raise failure(error) from error
        raise OutcomeUnknown(
            "the answer to a commit was lost", remedy="ask with the same Idempotency-Key whether it has happened"
        ) from error
    if done != "COMMIT":  # how PostgreSQL ends a transaction in which something failed
        raise Unavailable("the database rolled the transaction back", remedy="try again in a moment")


async def _roll_back(connection: Any) -> None:
    if is_lost(connection):
        return
    with contextlib.suppress(*ANY_FAILURE), dropped_when_interrupted(connection):
        await connection.execute("ROLLBACK")


async def _keep_settings(_connection: Any) -> None:
    """In place of asyncpg's own reset, which would cost a round trip after every use."""


async def _insist_on_durability(connection: Any) -> None:
    await connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))


async def _migrate(pool: Any, url: str) -> None:
    known = migrations.steps("postgresql")
    async with pool.acquire() as connection:
        while True:
            async with connection.transaction():
                await connection.execute("SET LOCAL statement_timeout = 0")
                # another process may be at the same: the second one finds the work done
                await connection.execute(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
                missing = migrations.missing(known, await _version(connection), url=url)
                if not missing:
                    return
                if await connection.fetchval("SELECT to_regclass('schema')") is None:
                    await connection.execute("CREATE TABLE schema (version BIGINT NOT NULL)")
                await connection.execute(missing[0].sql)
                await connection.execute("INSERT INTO schema (version) VALUES ($1)", missing[0].version)
                await connection.execute(
                    "INSERT INTO setting (key, value) VALUES ('history_id', $1) ON CONFLICT DO NOTHING", str(uuid4())
                )


async def _require_version(pool: Any, url: str) -> None:
    async with pool.acquire() as connection:
        major = connection.get_server_version().major
    if major < VERSION_MIN:
        raise UnusableDatabase(
            url, cause=f"the server is PostgreSQL {major}", remedy=f"upgrade it to PostgreSQL {VERSION_MIN} or newer"
        )


async def _require_newest(pool: Any, url: str) -> None:
    async with pool.acquire() as connection:
        migrations.require_newest(migrations.steps("postgresql"), await _version(connection), url=url)


async def _version(connection: Any) -> int:
    if await connection.fetchval("SELECT to_regclass('schema')") is None:
        return 0
    return await connection.fetchval("SELECT max(version) FROM schema") or 0


@contextlib.contextmanager
def refusals(url: str) -> Iterator[None]:
    """Every way in which a server can refuse us, with its way out."""
    try:
        yield
    except asyncpg.InvalidPasswordError as error:
        raise UnusableDatabase(url, cause="the password is wrong", remedy=f"correct it in {SETTING}") from error
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise UnusableDatabase(
            url, cause=f"the server does not let this user in: {error}", remedy="create the role, or use another"
        ) from error
    except asyncpg.InvalidCatalogNameError as error:
        raise UnusableDatabase(
            url, cause="there is no database of that name", remedy="create it with `createdb`, or name another"
        ) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise UnusableDatabase(
            url,
            cause=f"this user lacks a right: {error}",
            remedy="let the user own the database, or grant CREATE on its schema and all rights on its tables",
        ) from error
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise UnusableDatabase(
            url, cause="the server is a replica and can only read", remedy="name the primary, or all servers"
        ) from error
    except (asyncpg.ClientConfigurationError, ValueError) as error:
        raise UnusableDatabase(
            url, cause=f"the URL is wrong: {error}", remedy="postgresql://user@host:5432/name"
        ) from error
    except ANY_FAILURE as error:
        raise Unavailable(
            f"{SETTING}: the database does not answer: {str(error) or type(error).__name__}",
            remedy="start the server, or correct host and port",
        ) from error
