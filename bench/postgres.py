"""A PostgreSQL server of our own for one measurement, durable as it comes."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from virtflow.testing.postgres import find_program, postgres_server

#: More buffers and rarer checkpoints than the defaults for tiny machines, as anybody would set.
SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
}


def is_here() -> bool:
    """Whether this machine has one."""
    with contextlib.suppress(FileNotFoundError):
        find_program("postgres")
        return True
    return False


@contextlib.contextmanager
def postgresql_in(folder: Path) -> Iterator[str]:
    """The URL of an empty database whose files are in `folder`."""
    with postgres_server(folder=folder.absolute(), **SETTINGS) as server:
        yield server.url("postgres")
