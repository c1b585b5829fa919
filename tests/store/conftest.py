"""Both stores for the contract, and servers for what is special about one."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from virtflow.store.contract import Store
from virtflow.store.open import open_store

#: Opens one more store on the same database, as another process would; closed after the test.
OpenAnother = Callable[[], Awaitable[Store]]


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
