"""Elections by a real PostgreSQL, between candidates with connections of their own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from virtflow.control.clock import SystemClock
from virtflow.election import Election
from virtflow.election.open import open_election
from virtflow.model.errors import Fenced
from virtflow.store.contract import Store
from virtflow.store.open import open_store
from virtflow.testing.postgres import PostgresServer
from virtflow.testing.proxy import proxy

pytestmark = pytest.mark.service("postgresql")

#: long beside what a busy machine makes one wait for
LEASE_S = 3.0
Stand = Callable[..., contextlib.AbstractAsyncContextManager[tuple[Store, Election]]]


@pytest.fixture
def stand(postgresql_url: str) -> Stand:
    """`async with stand("one") as (store, election):`"""

    @contextlib.asynccontextmanager
    async def standing(me: str, *, lease_s: float = LEASE_S, url: str = "") -> AsyncIterator[tuple[Store, Election]]:
        store = open_store(url or postgresql_url, origin=me)
        await store.open()
        election = open_election("scheduler", store=store, lease_s=lease_s, clock=SystemClock())
        try:
            yield store, election
        finally:
            await election.close()
            await store.close()

    return standing


async def test_the_holder_of_a_session_that_is_gone_is_followed_long_before_the_lease_is_over(stand: Stand) -> None:
    async with stand("one", lease_s=60) as (store, one), stand("two", lease_s=60) as (_, two):
        await one.campaign()
        second = asyncio.create_task(two.campaign())
        await store.close()  # as the kernel does for a process that was killed
        async with asyncio.timeout(30):
            assert (await second).number == 2


async def test_who_lost_his_session_stops_although_he_is_alive(stand: Stand, postgresql: PostgresServer) -> None:
    async with stand("one", lease_s=60) as (_, one):
        first = await one.campaign()
        await postgresql.run(
            "virtflow",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'virtflow election'",
        )
        async with asyncio.timeout(30):
            await first.ended()
            assert not first.is_valid()
            assert (await one.campaign()).number == 2  # on a new one


async def test_who_is_cut_off_stops_before_the_next_begins(stand: Stand, postgresql: PostgresServer) -> None:
    async with (
        proxy(postgresql.port) as between,
        stand("two") as (_, two),
        stand("one", url=postgresql.url("virtflow", port=between.port)) as (_, one),
    ):
        first = await one.campaign()
        second = asyncio.create_task(two.campaign())
        await asyncio.sleep(LEASE_S / 3)
        assert not second.done()
        between.stall()
        async with asyncio.timeout(60):
            await second
        assert not first.is_valid()
        await first.ended()
        between.flow()


async def test_who_is_cut_off_and_comes_back_is_refused_by_the_fence(stand: Stand) -> None:
    async with stand("one") as (first, _), stand("two") as (second, _):
        async with first.transaction() as tx:
            old = await tx.take_fence()
        async with second.transaction() as tx:
            assert await tx.take_fence() == old + 1
        with pytest.raises(Fenced):
            async with first.transaction() as tx:
                await tx.check_fence(old)


async def test_a_database_that_comes_back_has_a_leader_again(new_postgresql_url: str, stand: Stand) -> None:
    server = new_postgresql_url.partition("/new_")[0]
    async with proxy(int(server.rpartition(":")[2])) as between:
        url = new_postgresql_url.replace(server.rpartition(":")[2], str(between.port), 1)
        async with stand("one", url=url) as (_, one):
            first = await one.campaign()
            between.swallow_request = b"lease"
            between.cut()
            async with asyncio.timeout(30):
                await first.ended()
                second = asyncio.create_task(one.campaign())
                while one.state in ("following", "leading"):
                    await asyncio.sleep(0.01)
                assert "database" in one.state
                between.swallow_request = None
                assert (await second).is_valid()
            assert one.state == "leading"
