"""Both databases for whoever tests on them: a file, and a real PostgreSQL server, one for each process of tests."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from virtflow.store.open import open_store
from virtflow.testing.postgres import PostgresServer, postgres_server

#: Emptying takes 5 ms, making a database 150.
_EMPTY = """
    DELETE FROM room; DELETE FROM host; DELETE FROM instance; DELETE FROM task; DELETE FROM shape; DELETE FROM event;
    DELETE FROM answer; DELETE FROM gone; DELETE FROM pool; DELETE FROM dimension;
    DELETE FROM lease; DELETE FROM process; DELETE FROM dead; DELETE FROM outlet; DELETE FROM webhook;
    DELETE FROM delivery; DELETE FROM callback;
    DELETE FROM setting WHERE key <> 'history_id'; UPDATE counter SET value = (name = 'oldest_event')::int;
"""
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def _postgresql_database(postgresql: PostgresServer) -> str:
    async def make() -> str:
        store = open_store(await postgresql.create_database("virtflow"))
        await store.open()
        await store.close()
        return "virtflow"

    return asyncio.run(make())


@pytest.fixture
async def postgresql_url(postgresql: PostgresServer, _postgresql_database: str) -> str:
    """A database with all tables and nothing in them."""
    await postgresql.run(_postgresql_database, _EMPTY)
    return postgresql.url(_postgresql_database)


@pytest.fixture
async def new_postgresql_url(postgresql: PostgresServer) -> str:
    """A database without any tables."""
    return await postgresql.create_database(f"new_{next(_numbers)}")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service("postgresql"))])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/virtflow.db"
    return str(request.getfixturevalue("postgresql_url"))
