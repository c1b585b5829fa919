"""Several servers in one URL: the primary is found, whoever else is dead, silent or a replica."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.control.conftest import config

from virtflow.model.errors import Unavailable
from virtflow.store.failures import UnusableDatabase
from virtflow.store.open import open_store
from virtflow.store.postgres_connect import connect
from virtflow.testing.ports import free_port
from virtflow.testing.postgres import USER, PostgresServer

pytestmark = pytest.mark.service("postgresql")


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a machine that lets us in and says nothing: as far as we see, it is dead."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def naming(*ports: int) -> str:
    places = ",".join(f"127.0.0.1:{port}" for port in ports)
    return f"postgresql://{USER}@{places}/virtflow"


async def test_a_dead_machine_is_not_waited_for(postgresql: PostgresServer, postgresql_url: str, silent: int) -> None:
    async with asyncio.timeout(30):
        connection = await connect(naming(silent, free_port(), postgresql.port), timeout=60)
        assert await connection.fetchval("SELECT 1") == 1
        connection.terminate()


async def test_a_store_opens_listens_and_votes_at_whichever_is_there(
    postgresql: PostgresServer, postgresql_url: str, tmp_path: Path
) -> None:
    url = config(tmp_path / "unused", database_url=naming(free_port(), postgresql.port)).database_url.reveal()
    store, told = open_store(url, origin="one"), asyncio.Event()
    await store.open()
    listening = asyncio.create_task(store.hear(told.set))
    async with asyncio.timeout(30):
        await told.wait()
    assert await store.leases() == []
    assert await store.now_ms() > 0
    listening.cancel()
    await store.close()


async def test_where_nobody_is_there_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="VIRTFLOW_DATABASE_URL"):
        await open_store(naming(free_port(), free_port())).open()


async def test_a_refusal_of_one_says_more_than_the_silence_of_another(postgresql: PostgresServer) -> None:
    with pytest.raises(UnusableDatabase, match="no database of that name"):
        await open_store(naming(free_port(), postgresql.port) + "_elsewhere").open()


@pytest.mark.slow
async def test_of_a_replica_and_its_primary_the_primary_is_taken_and_the_heir_after_a_promotion(
    postgresql: PostgresServer, postgresql_url: str
) -> None:
    def replica() -> contextlib.AbstractContextManager[PostgresServer]:
        return postgresql.replica()

    block = replica()
    follower = await asyncio.to_thread(block.__enter__)
    try:
        both = naming(follower.port, postgresql.port)
        connection = await connect(both, timeout=30)
        assert await connection.fetchval("SELECT inet_server_port()") == postgresql.port
        connection.terminate()
        with pytest.raises(UnusableDatabase, match="replica"):
            await open_store(naming(follower.port, free_port())).open()
        await asyncio.to_thread(follower.promote)
        heir = await connect(naming(free_port(), follower.port), timeout=30)
        assert await heir.fetchval("SELECT inet_server_port()") == follower.port
        heir.terminate()
    finally:
        await asyncio.to_thread(block.__exit__, None, None, None)
