"""`virtflow backup` and `virtflow restore`."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from virtflow import __version__
from virtflow.config import Config
from virtflow.main.doors.door import config_from, guarded
from virtflow.model.errors import Conflict, InvalidRequest
from virtflow.model.secret import without_secrets
from virtflow.model.times import time_text
from virtflow.store.backup import take
from virtflow.store.dump import write_dump
from virtflow.store.restore import put_back


def backup(argv: Sequence[str]) -> int:
    """`virtflow backup FILE`: everything of one moment, while others go on writing."""
    return guarded(lambda: _backup(Path(argv[0]), config_from(argv[1:])))


def restore(argv: Sequence[str]) -> int:
    """`virtflow restore FILE`: into an empty database."""
    return guarded(lambda: _restore(Path(argv[0]), config_from(argv[1:])))


def _backup(file: Path, config: Config) -> int:
    if file.exists():
        raise Conflict(f"{file} exists, and nothing is overwritten", remedy="name another file")
    with _files_at_hand(file):
        tail = asyncio.run(write_dump(file, take(_url(config), program=__version__)))
    print(f"{tail.rows:,} rows in {file} ({file.stat().st_size:,} bytes)")
    return 0


def _restore(file: Path, config: Config) -> int:
    with _files_at_hand(file):
        head, rows = asyncio.run(put_back(_url(config), file, at_ms=time.time_ns() // 1_000_000))
    shown = without_secrets(_url(config))
    print(f"{rows:,} rows of {time_text(head.taken_ms)} are in {shown}, which begins a new history of events")
    print("Next: virtflow fsck, then virtflow serve. Consumers of events are told when they ask.", file=sys.stderr)
    return 0


@contextlib.contextmanager
def _files_at_hand(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidRequest(
            f"{error.filename or file}: {error.strerror or error}", remedy="name another place, or correct its rights"
        ) from error


def _url(config: Config) -> str:
    url = config.database_url.reveal()
    if url == "sqlite://":
        raise InvalidRequest("a database in memory is nobody else's to look at", remedy="name a file in database_url")
    return url
