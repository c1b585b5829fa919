"""The embedded database: one file, one process, one writer."""

import asyncio
import contextlib
import os
import shutil
import tempfile
import threading
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import apsw

from virtflow.model.errors import OutcomeUnknown, Unavailable, VirtflowError
from virtflow.store import migrations
from virtflow.store.failures import LedgerViolated, UnusableDatabase
from virtflow.store.hosts import read_dimensions
from virtflow.store.housekeeping import Housekeeping
from virtflow.store.interned import Interned
from virtflow.store.lock import FileLock
from virtflow.store.records import Reads, Writes
from virtflow.store.session import CHUNK_ROWS, Row
from virtflow.store.statements import statements

#: Statements of one batch that run before the event loop gets its turn.
ROWS_AT_ONCE = 2_000
#: How long another program may hold the file before we say so.
BUSY_WAIT_S = 5.0
READERS = 2
CACHE_KIB = 32 * 1024
#: A check of the whole file at start takes about a second for each 300 MB.
CHECKED_BYTES_MAX = 64 * 2**20
#: The log is copied into the file beyond this, and cut to this afterwards.
WAL_PAGES = 4_000
WAL_BYTES_KEPT = 32 * 2**20

_STATEMENTS_CACHED = 256
#: After these nobody knows what is on the disk, and trying again could hide that.
_LOST_WRITES = frozenset(
    {apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC, apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_TRUNCATE}
)
_Result = TypeVar("_Result")


class SqliteStore(Reads, Housekeeping):
    """`path` None: a database for tests, gone at `close`, which runs without threads."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._directory: str | None = None
        self._interned = Interned()
        self._writing = asyncio.Lock()
        self._broken: str | None = None
        self._near = self._far = self._scanner = _Closed()  # type: ignore[assignment]
        self._stack = contextlib.ExitStack()

    @property
    def _url(self) -> str:
        return f"sqlite:///{self._path}" if self._path else "sqlite://"

    async def open(self) -> None:
        with contextlib.ExitStack() as stack:
            path = self._path or self._temporary(stack)
            self._threads = _Threads(stack) if self._path else None
            with _unusable(self._url):
                await self._run(lambda: self._open(path, stack))
            self._stack = stack.pop_all()
        await read_dimensions(self._near, self._interned)

    async def close(self) -> None:
        async with self._writing:
            self._broken = self._broken or "the store is closed"
            await self._run(self._stack.close)
