"""The embedded database: one file, one process, one writer. Why it is spread over threads as it is: docs/decisions."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw

from virtflow.model.errors import OutcomeUnknown, Unavailable
from virtflow.store import migrations
from virtflow.store.failures import UnusableDatabase
from virtflow.store.hosts import read_dimensions
from virtflow.store.housekeeping import Housekeeping
from virtflow.store.interned import Interned
from virtflow.store.leases import Leases, Line
from virtflow.store.lock import FileLock, Held
from virtflow.store.records import Reads, Writes
from virtflow.store.session import Reader, Row, Snapshots
from virtflow.store.sqlite_session import (
    WAL_BYTES_KEPT,
    InlineSession,
    PackedSession,
    Threads,
    WriteSession,
    connect,
    failure,
    is_fatal,
)
from virtflow.store.statements import statements
from virtflow.store.vault import CLEAR, Vault

#: How long another program may hold the file before we say so.
BUSY_WAIT_S = 5.0
READERS = 2
#: The whole file is checked at start when nobody said goodbye to it, but only if that is quick.
CHECKED_BYTES_MAX = 64 * 2**20
#: Pages of 4 KiB in the log: from here on they are copied into the file beside the writers …
WAL_PAGES = 4_000
#: … and here writers wait for that, and long readers are cut off.
WAL_PAGES_MAX = 12_000
MEMORY_FILE_SYSTEM = Path("/dev/shm")  # noqa: S108  # where it is, not a temporary name


class SqliteStore(Reads, Housekeeping, Leases):
    """`path` None: a database for tests, gone at `close`, which runs without threads.

    `reading`: beside the process that owns the file, without its lock, and without a single write.
    """

    def __init__(self, path: Path | None, *, reading: bool = False, origin: str = "", vault: Vault = CLEAR) -> None:
        self.origin = origin
        self._vault = vault
        self._path = path
        self._is_reading = reading
        self._interned = Interned()
        self._writing = asyncio.Lock()
        self._is_open = False
        #: why nothing may be written
        self._refusal: str | None = "the store is not open"
        self._disk_failure: str | None = None
        self._is_left_cleanly = False
        self._wal_pages = 0
        self._copied_pages = 0
        self._copying: asyncio.Future[None] | None = None
        self._is_unchecked = False
        self._checking: asyncio.Future[None] | None = None
        self._snapshots: set[_Snapshot] = set()
        self._snapshot: Snapshots = self._open_snapshot
        self._line: Line = _Transactions(self)
        self._stack = contextlib.ExitStack()

    async def open(self) -> None:
        with contextlib.ExitStack() as stack, refusals(self._path):
            self._file = self._path or _temporary_file(stack)
            self._commits, self._reads, self._copies = (
                self._threads(stack, number, name) for number, name in ((1, "commit"), (READERS, "read"), (1, "copy"))
            )
            await self._commits.run(
                lambda: self._connect_beside(stack) if self._is_reading else self._connect_all(stack)
            )
            await read_dimensions(self._near, self._interned)
            self._stack = stack.pop_all()
        if self._is_unchecked:
            self._checking = asyncio.ensure_future(self._check_beside())
        self._is_open = True
        self._disk_failure = None
        self._refusal = "this store only reads" if self._is_reading else None

    async def close(self) -> None:
        async with self._writing:
            self._refusal = "the store is closed"
            self._is_open = False
            await self._end_checking()
            if self._copying:
                await asyncio.wait({self._copying})
            await self._cut_off_snapshots()
            await self._close_all(self._stack.pop_all())

    async def _close_all(self, stack: contextlib.ExitStack) -> None:
        self._is_left_cleanly = self._disk_failure is None and not self._is_unchecked
        if self._path:
            await asyncio.to_thread(stack.close)  # the last connection copies the log into the file
        else:
            stack.close()

    async def ping(self) -> None:
        self._refuse_if_broken()
        await self._near.rows("alive")

    async def hear(self, tell: Callable[[], None]) -> None:
        """There is nobody else who could write."""
        await asyncio.Event().wait()

    # writing

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Writes]:
        async with self._writing:
            self._refuse_if_broken()
            await self._bound_log()
            session = await self._begin()
            interned = Interned(self._interned)
            try:
                yield Writes(session, interned, self.origin, self._vault)
            except BaseException:
                self._roll_back(session)
                raise
            await self._commit(session)
            self._interned.keep(interned)
            self._copy_log()

    def _refuse_if_broken(self) -> None:
        if refusal := self._disk_failure or self._refusal:
            raise Unavailable(refusal, remedy="start the program again")

    async def _begin(self) -> WriteSession:
        try:
            self._writer.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:  # another program holds the file: wait, but not on the event loop
            await self._begin_patiently()
        except apsw.Error as error:
            raise failure(error) from error
        return WriteSession(self._writer, statements("sqlite"), self._commits)

    async def _begin_patiently(self) -> None:
        try:
            self._writer.set_busy_timeout(int(BUSY_WAIT_S * 1000))
            await self._commits.run(lambda: self._writer.execute("BEGIN IMMEDIATE"))
        except apsw.Error as error:
            raise failure(error) from error
        except asyncio.CancelledError:
            self._writer.execute("ROLLBACK")
            raise
        finally:
            self._writer.set_busy_timeout(0)

    async def _commit(self, session: WriteSession) -> None:
        if session.error:  # somebody has swallowed it
            self._roll_back(session)
            raise failure(session.error) from session.error
        session.close("it was committed")
        try:
            if session.has_changed_something:
                await self._commits.run(lambda: self._writer.execute("COMMIT"))
            else:
                self._writer.execute("COMMIT")
        except apsw.Error as error:
            self._roll_back(session)
            if is_fatal(error):
                self._disk_failure = f"the disk of the database failed: {error}"
                raise OutcomeUnknown(
                    f"the disk failed during a commit: {error}", remedy="ask again after the program's next start"
                ) from error
            raise failure(error) from error

    def _roll_back(self, session: WriteSession) -> None:
        session.close("it was rolled back")
        if is_fatal(session.error):
            self._disk_failure = f"the disk of the database failed: {session.error}"
        if self._writer.in_transaction:  # after some errors SQLite has rolled back already
            try:
                self._writer.execute("ROLLBACK")
            except apsw.Error as error:
                self._disk_failure = f"a transaction could not be rolled back: {error}"

    # the log

    def _count_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _copy_log(self) -> None:
        """Beside the writers, so that no commit waits for it; and not after each, for it makes the disk wait, too."""
        if self._wal_pages < self._copied_pages:
            self._copied_pages = 0  # SQLite has begun the log anew
        if self._wal_pages - self._copied_pages >= WAL_PAGES and (self._copying is None or self._copying.done()):
            self._copied_pages = self._wal_pages
            self._copying = asyncio.ensure_future(self._copies.run(self._copy))

    async def _bound_log(self) -> None:
        if self._wal_pages < WAL_PAGES_MAX:
            return
        await self._cut_off_snapshots()
        if self._copying:
            await asyncio.wait({self._copying})
        await self._copies.run(self._copy)

    def _copy(self) -> None:
        try:
            self._copier.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            if is_fatal(error):
                self._disk_failure = f"the disk of the database failed: {error}"

    # a large file after a crash

    async def _check_beside(self) -> None:
        """Too long to wait for; what it finds ends the writing."""
        try:
            await self._copies.run(lambda: _check(self._checker))
        except apsw.InterruptError:
            pass  # the store is being closed: the next start checks again
        except apsw.Error as error:
            self._disk_failure = f"the database file is damaged: {error}"
        else:
            self._is_unchecked = False

    async def _end_checking(self) -> None:
        if self._checking:
            self._checker.interrupt()
            await asyncio.wait({self._checking})

    # reading

    @contextlib.asynccontextmanager
    async def _open_snapshot(self) -> AsyncIterator[Reader]:
        if not self._is_open:
            raise Unavailable("the store is not open")
        snapshot = _Snapshot(self._file, self._reads)
        self._snapshots.add(snapshot)
        try:
            yield snapshot
        finally:
            self._snapshots.discard(snapshot)
            await snapshot.cut_off()

    async def _cut_off_snapshots(self) -> None:
        for snapshot in list(self._snapshots):
            await snapshot.cut_off()

    # opening

    def _threads(self, stack: contextlib.ExitStack, number: int, name: str) -> Threads:
        threads = Threads(number if self._path else 0, name)
        stack.callback(threads.close)
        return threads

    def _connect_all(self, stack: contextlib.ExitStack) -> None:
        lock = FileLock(self._file.with_name(self._file.name + ".lock"))
        stack.callback(lambda: lock.leave(cleanly=self._is_left_cleanly))
        self._file.touch(mode=0o600)  # what tenants own is nobody else's business
        self._writer = self._connect(stack, reading=False)
        self._is_unchecked = not lock.was_left_cleanly and self._file.stat().st_size > CHECKED_BYTES_MAX
        if not lock.was_left_cleanly and not self._is_unchecked:
            _check(self._writer)
        _become_durable(self._writer)
        _migrate(self._writer, self._path)
        self._writer.set_wal_hook(self._count_log)
        self._copier = self._connect(stack, reading=False)
        self._checker = self._connect(stack, reading=True)
        self._connect_readers(stack)

    def _connect_beside(self, stack: contextlib.ExitStack) -> None:
        """Beside the process that owns the file."""
        if not self._file.exists():
            raise FileNotFoundError(f"there is no file {self._file}")
        connection = self._connect(stack, reading=True)
        migrations.require_newest(migrations.steps("sqlite"), _version(connection), url=_url(self._path))
        self._connect_readers(stack)

    def _connect_readers(self, stack: contextlib.ExitStack) -> None:
        known = statements("sqlite")
        self._near: Reader = InlineSession(self._connect(stack, reading=True), known)
        self._far: Reader = PackedSession(
            [self._connect(stack, reading=True) for _ in range(READERS)], self._reads, known
        )

    def _connect(self, stack: contextlib.ExitStack, *, reading: bool) -> apsw.Connection:
        connection = connect(self._file, reading=reading)
        stack.callback(connection.close)
        return connection


class _Transactions:
    """Each statement in a transaction of its own: whoever owns the file has no session that others could see."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._end = asyncio.Event()

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        async with self._store.transaction() as tx:
            return await tx.rows(name, *arguments)

    def end(self) -> asyncio.Event:
        return self._end

    def close(self) -> None:
        self._end.set()


class _Snapshot:
    """A read transaction of its own; the log cannot be cut while it lasts, so it may be cut off instead."""

    def __init__(self, file: Path, threads: Threads) -> None:
        self._using = asyncio.Lock()
        self._connection: apsw.Connection | None = connect(file, reading=True)
        self._connection.execute("BEGIN")
        self._session = PackedSession([self._connection], threads, statements("sqlite"))

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        async with self._using:
            if self._connection is None:
                raise Unavailable(
                    "too much was written during a long read, which was cut off", remedy="repeat it at a quieter time"
                )
            return await self._session.rows(name, *arguments)

    async def cut_off(self) -> None:
        async with self._using:
            if self._connection:
                self._connection.close()
                self._connection = None


def _temporary_file(stack: contextlib.ExitStack) -> Path:
    """In memory where the system has a file system there: connections then see each other as they do in a file."""
    directory = tempfile.mkdtemp(prefix="virtflow-", dir=MEMORY_FILE_SYSTEM if MEMORY_FILE_SYSTEM.is_dir() else None)
    stack.callback(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory, "virtflow.db")


def _check(connection: apsw.Connection) -> None:
    """What a crash cannot do to SQLite, a bad disk can."""
    found = connection.execute("PRAGMA quick_check(1)").get
    if found != "ok":
        raise apsw.CorruptError(str(found))


def _become_durable(connection: apsw.Connection) -> None:
    mode = connection.pragma("journal_mode", "wal")
    if mode != "wal":
        raise apsw.CantOpenError("its file system cannot share memory between connections, as network ones cannot")
    connection.pragma("synchronous", "full")
    connection.pragma("journal_size_limit", WAL_BYTES_KEPT)


def _migrate(connection: apsw.Connection, path: Path | None) -> None:
    known = migrations.steps("sqlite")
    with connection:
        connection.execute("CREATE TABLE IF NOT EXISTS schema (version INTEGER NOT NULL) STRICT")
    for step in migrations.missing(known, _version(connection), url=_url(path)):
        with connection:
            connection.execute(step.sql)
            connection.execute("INSERT INTO schema (version) VALUES ($1)", (step.version,))
    with connection:
        connection.execute(
            "INSERT INTO setting (key, value) VALUES ('history_id', $1) ON CONFLICT DO NOTHING", (str(uuid4()),)
        )


def _version(connection: apsw.Connection) -> int:
    if not connection.table_exists(None, "schema"):
        return 0
    return int(connection.execute("SELECT max(version) FROM schema").get or 0)


def _url(path: Path | None) -> str:
    return f"sqlite:///{path}" if path else "sqlite://"


@contextlib.contextmanager
def refusals(path: Path | None) -> Iterator[None]:
    """Every way in which a file can be no database of ours, with its way out."""
    try:
        yield
    except Held as error:
        raise UnusableDatabase(
            _url(path),
            cause=f"another process uses it ({error.owner or 'it has not said which'})",
            remedy="stop that process, or name another file; several processes can share a PostgreSQL database",
        ) from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise UnusableDatabase(
            _url(path),
            cause=f"the file is damaged or no database: {error}",
            remedy="restore the last backup; `sqlite3 FILE .recover` shows what is left of this one",
        ) from error
    except (OSError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise UnusableDatabase(
            _url(path),
            cause=f"it cannot be opened: {error}",
            remedy="its directory must exist on a local disk, and this user must be able to write there",
        ) from error
    except apsw.Error as error:
        raise failure(error) from error
