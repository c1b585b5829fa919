"""Both stores for the contract, and servers for what is special about one."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from virtflow.store.contract import Store
from virtflow.store.open import open_store
from virtflow.testing.postgres import PostgresServer, postgres_server

_TEMPLATE = "virtflow_template"
_numbers = itertools.count(1)

#: Opens one more store on the same database, as another process would; closed after the test.
OpenAnother = Callable[[], Awaitable[Store]]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        asyncio.run(_make_template(server))
        yield server


async def _make_template(server: PostgresServer) -> None:
    store = open_store(await server.create_database(_TEMPLATE))
    await store.open()
    await store.close()


@pytest.fixture
async def postgresql_url(postgresql: PostgresServer) -> str:
    """A database of its own for each test."""
    return await postgresql.create_database(f"test_{next(_numbers)}", template=_TEMPLATE)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service("postgresql"))])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/virtflow.db"
    return str(request.getfixturevalue("postgresql_url"))


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def another(url: str) -> AsyncIterator[OpenAnother]:
    async with contextlib.AsyncExitStack() as stack:

        async def opening() -> Store:
            store = open_store(url)
            await store.open()
            stack.push_async_callback(store.close)
            return store

        yield opening
