"""What is special about the shared database: it can go away at any moment, and others use it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest
from tests.store.builders import add_hosts, add_instances, add_tasks, event, host_named, instance, intern, key, task

from virtflow.model.errors import InvalidSetting, OutcomeUnknown, Unavailable
from virtflow.store.contract import Bind, NamesTaken, Removed, RetryTransaction, RoomChange
from virtflow.store.postgres import PostgresStore
from virtflow.testing.postgres import PostgresServer, postgres_server
from virtflow.testing.proxy import Proxy, proxy

pytestmark = pytest.mark.service("postgresql")


@contextlib.asynccontextmanager
async def opened(url: str, **settings: float) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, **settings)  # type: ignore[arg-type]
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(postgresql_url: str) -> AsyncIterator[PostgresStore]:
    async with opened(postgresql_url) as store:
        yield store


@pytest.fixture
async def between(postgresql: PostgresServer) -> AsyncIterator[Proxy]:
    async with proxy(postgresql.port) as between:
        yield between


@pytest.fixture
async def far(postgresql_url: str, between: Proxy) -> AsyncIterator[PostgresStore]:
    """A store that reaches the database through a proxy."""
    url = postgresql_url.replace(postgresql_url.split(":")[2].split("/", maxsplit=1)[0], str(between.port))
    async with opened(url, connections_max=3, connect_s=1.0, statement_s=0.5) as store:
        yield store


async def set_setting(store: PostgresStore, name: str, value: str = "") -> None:
    async with store.transaction() as tx:
        await tx.set_setting(name, value)


# the answer to a commit


async def test_a_lost_answer_to_a_commit_is_unknown_and_it_has_happened(
    far: PostgresStore, store: PostgresStore, between: Proxy
) -> None:
    between.swallow_reply_to = b"COMMIT\0"
    for number in range(20):
        with pytest.raises(OutcomeUnknown, match="answer to a commit was lost") as caught:
            await add_tasks(far, [task(number)])
        assert "Idempotency-Key" in caught.value.remedy
        assert await store.task(key(number)) is not None
    assert between.swallowed == 20
    between.swallow_reply_to = None
    await add_tasks(far, [task(99)])


async def test_a_commit_that_never_arrived_is_unknown_and_has_not_happened(
    far: PostgresStore, store: PostgresStore, between: Proxy
) -> None:
    between.swallow_request = b"COMMIT\0"
    for number in range(20):
        with pytest.raises(OutcomeUnknown):
            await add_tasks(far, [task(number)])
        assert await store.task(key(number)) is None
    between.swallow_request = None
    await add_tasks(far, [task(0)])


async def test_a_commit_that_comes_late_does_not_come_true_after_somebody_looked(
    far: PostgresStore, store: PostgresStore, between: Proxy
) -> None:
    """The word was on its way when the connection broke. Who looks afterwards must see the last word."""
    looks = (far.task, lambda _: set_setting(far, "a"), lambda _: anext(far.scan_tasks(), None))
    for number, look in enumerate(looks):
        between.delay_request = b"COMMIT\0"
        with pytest.raises(OutcomeUnknown):
            await add_tasks(far, [task(number)])
        between.delay_request = None
        await look(key(number))  # type: ignore[operator]
        seen = await store.task(key(number))
        between.arrive()
        async with asyncio.timeout(10):
            while between.on_the_way:
                await asyncio.sleep(0.01)
        assert await store.task(key(number)) == seen


async def test_while_it_cannot_be_known_nobody_looks(far: PostgresStore, between: Proxy) -> None:
    between.delay_request = b"COMMIT\0"
    with pytest.raises(OutcomeUnknown):
        await add_tasks(far, [task(1)])
    between.stall()
    with pytest.raises(Unavailable):
        await far.task(key(1))
    between.delay_request = None
    between.flow()
    assert await far.task(key(1)) is None


async def test_a_commit_that_is_refused_is_known_to_have_failed(store: PostgresStore) -> None:
    async def write() -> None:
        async with store.transaction() as tx:
            await tx.set_setting("k", "v")
            tx._session._statements = {"wrong": "SELECT 1 / 0"}  # type: ignore[attr-defined]
            with contextlib.suppress(Exception):
                await tx._session.rows("wrong")

    with pytest.raises(Exception, match="impossible value"):
        await write()
    assert await store.setting("k") is None


# connections that go


async def test_a_cut_in_the_middle_rolls_back(far: PostgresStore, store: PostgresStore, between: Proxy) -> None:
    async def write() -> None:
        async with far.transaction() as tx:
            await tx.set_setting("a", "")
            between.cut()
            await tx.set_setting("b", "")

    for _ in range(10):
        with pytest.raises(Unavailable) as caught:
            await write()
        assert not isinstance(caught.value, OutcomeUnknown)
    assert await store.setting("a") is None
    await set_setting(far, "c")


async def test_a_backend_that_is_ended_rolls_back(store: PostgresStore, postgresql: PostgresServer) -> None:
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'virtflow'"

    async def write() -> None:
        async with store.transaction() as tx:
            await tx.set_setting("a", "")
            await postgresql.run("virtflow", others)
            await tx.set_setting("b", "")

    for _ in range(5):
        with pytest.raises(Unavailable):
            await write()
    assert await store.setting("a") is None
    await set_setting(store, "c")


async def test_a_silent_database_is_given_up_in_time(far: PostgresStore, between: Proxy) -> None:
    between.stall()
    began_s = time.monotonic()
    results = await asyncio.gather(
        set_setting(far, "a"), far.task(key(1)), far.ping(), far.counts(), far.host("a"), return_exceptions=True
    )
    assert all(isinstance(result, Unavailable) for result in results)
    assert time.monotonic() - began_s < 0.5 + 0.5 + 1.0 + 1.0  # statement, margin, connection, a slow machine
    between.flow()
    await set_setting(far, "b")
    assert await far.setting("a") is None


async def test_a_statement_that_waits_too_long_is_ended(store: PostgresStore, postgresql_url: str) -> None:
    await add_hosts(store, "a")
    async with opened(postgresql_url, statement_s=0.2) as other, store.transaction() as tx:
        await tx.set_cordon("a", cordoned=True, at_ms=1, expected_version=None)
        with pytest.raises(Unavailable):
            async with other.transaction() as late:
                await late.set_cordon("a", cordoned=False, at_ms=1, expected_version=None)
    assert (await host_named(store, "a")).cordoned


async def test_whoever_sleeps_in_a_transaction_loses_it(store: PostgresStore, postgresql_url: str) -> None:
    await add_hosts(store, "a")

    async def sleep(other: PostgresStore) -> None:
        async with other.transaction() as tx:
            await tx.set_cordon("a", cordoned=True, at_ms=1, expected_version=None)
            await asyncio.sleep(0.6)
            await tx.set_setting("k", "")

    async with opened(postgresql_url, statement_s=0.2) as other:
        with pytest.raises(Unavailable):
            await sleep(other)
    assert not (await host_named(store, "a")).cordoned


async def test_more_than_the_pool_holds_wait_their_turn_but_not_for_ever(postgresql_url: str) -> None:
    async with opened(postgresql_url, connections_max=1, connect_s=0.2) as store:
        await asyncio.gather(*(set_setting(store, f"k{number}") for number in range(20)))
        async with store.transaction():
            with pytest.raises(Unavailable, match="did not answer in time"):
                await store.setting("k1")
        assert await store.setting("k1") == ""


@pytest.mark.slow
async def test_a_server_that_crashes_and_comes_back() -> None:
    with postgres_server(fsync="on", full_page_writes="on") as server:
        async with opened(await server.create_database("virtflow")) as store:
            await set_setting(store, "before")
            server.kill()
            began_s = time.monotonic()
            with pytest.raises(Unavailable):
                await set_setting(store, "during")
            with pytest.raises(Unavailable):
                await store.ping()
            assert time.monotonic() - began_s < 1.0
            server.start()
            began_s = time.monotonic()
            await set_setting(store, "after")
            assert time.monotonic() - began_s < 2.0
            assert [await store.setting(name) for name in ("before", "during", "after")] == ["", None, ""]


async def test_a_pool_full_of_dead_connections_is_not_noticed_by_readers_and_writers(
    store: PostgresStore, postgresql: PostgresServer
) -> None:
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'virtflow'"
    for _ in range(10):
        await asyncio.gather(*(store.ping() for _ in range(10)))
        await postgresql.run("virtflow", others)
        await asyncio.gather(*(store.setting("k") for _ in range(5)), *(set_setting(store, "k") for _ in range(5)))


# others at the same time


async def test_a_deadlock_may_be_repeated(store: PostgresStore) -> None:
    await add_hosts(store, "a", "b")
    barrier = asyncio.Barrier(2)

    async def cordon(first: str, second: str) -> bool:
        try:
            async with store.transaction() as tx:
                await tx.set_cordon(first, cordoned=True, at_ms=1, expected_version=None)
                await barrier.wait()
                await tx.set_cordon(second, cordoned=True, at_ms=1, expected_version=None)
        except RetryTransaction:
            return False
        return True

    assert sorted(await asyncio.gather(cordon("a", "b"), cordon("b", "a"))) == [False, True]


async def test_batches_in_opposite_orders_never_wait_for_each_other(store: PostgresStore) -> None:
    """One order of locks whatever the order of the arguments: without it, some of these would end in a deadlock."""
    ids = await add_hosts(store, *(f"h{number}" for number in range(50)))
    await intern(store)

    async def take_and_give(number: int) -> None:
        changes = [RoomChange(host_id, {"cpu": 1}, 1) for host_id in (ids if number % 2 else ids[::-1])]
        for step in ("take_room", "give_room"):
            async with store.transaction() as tx:
                await getattr(tx, step)(changes)

    await asyncio.gather(*(take_and_give(number) for number in range(40)))
    assert (await host_named(store, "h7")).used == {}


async def test_a_race_for_a_name_ends_in_a_retry_that_names_it(store: PostgresStore) -> None:
    written = asyncio.Event()

    async def first() -> None:
        async with store.transaction() as tx:
            await tx.add_instances([instance(1, given_name="web")])
            written.set()
            await until_somebody_waits_for_a_lock(store)

    async def second() -> None:
        await written.wait()
        with pytest.raises(RetryTransaction):  # it looked before the first one was committed
            await add_instances(store, [instance(2, given_name="web")])
        with pytest.raises(NamesTaken):
            await add_instances(store, [instance(2, given_name="web")])

    await asyncio.gather(first(), second())


async def test_events_of_several_stores_are_in_commit_order(store: PostgresStore, postgresql_url: str) -> None:
    async with opened(postgresql_url) as other:
        order: list[int] = []

        async def write(who: PostgresStore, number: int) -> None:
            async with who.transaction() as tx:
                await tx.append_events([event(number)])
            order.append(number)

        await asyncio.gather(*(write((store, other)[n % 2], n) for n in range(40)))
        events = [int(one.id) for chunk in [part async for part in other.scan_events()] for one in chunk]
    assert sorted(events) == list(range(40))
    # what was acknowledged long before another began has the smaller number; neighbours may be told in either order
    assert max(abs(events.index(number) - place) for place, number in enumerate(order)) < 20


# opening


async def test_many_processes_make_the_tables_at_once(new_postgresql_url: str) -> None:
    stores = [PostgresStore(new_postgresql_url, connections_max=2) for _ in range(5)]
    await asyncio.gather(*(store.open() for store in stores))
    assert len({await store.history_id() for store in stores}) == 1
    for store in stores:
        await store.close()


async def test_a_look_makes_and_changes_nothing(new_postgresql_url: str) -> None:
    with pytest.raises(InvalidSetting, match="older than version"):
        await PostgresStore(new_postgresql_url, reading=True).open()
    async with opened(new_postgresql_url) as store:
        await set_setting(store, "k", "v")
        look = PostgresStore(new_postgresql_url, reading=True)
        await look.open()
        with pytest.raises(Unavailable, match="read-only transaction"):
            await set_setting(look, "k", "w")
        assert await look.setting("k") == "v"
        await look.close()


async def refusal(url: str) -> InvalidSetting:
    with pytest.raises(InvalidSetting) as caught:
        await PostgresStore(url, connect_s=2.0).open()
    assert "VIRTFLOW_DATABASE_URL" in caught.value.detail
    assert "s3cret" not in f"{caught.value} {caught.value.detail} {caught.value.remedy} {caught.value.value}"
    assert caught.value.remedy
    return caught.value


async def test_an_unknown_database_is_named(postgresql: PostgresServer) -> None:
    error = await refusal(postgresql.url("nowhere").replace("virtflow@", "virtflow:s3cret@"))
    assert "no database of that name" in error.detail


async def test_a_wrong_password_is_named_and_not_told(postgresql: PostgresServer) -> None:
    await postgresql.run("postgres", "CREATE ROLE locked LOGIN PASSWORD 'right'")
    postgresql.demand_password_of("locked")
    error = await refusal(postgresql.url("postgres").replace("virtflow@", "locked:s3cret@"))
    assert "the password is wrong" in error.detail


async def test_an_unknown_user_is_named(postgresql: PostgresServer) -> None:
    error = await refusal(postgresql.url("postgres").replace("virtflow@", "nobody:s3cret@"))
    assert "does not let this user in" in error.detail


async def test_missing_rights_are_named(postgresql: PostgresServer, new_postgresql_url: str) -> None:
    with contextlib.suppress(Exception):
        await postgresql.run("postgres", "CREATE ROLE guest LOGIN")
    database = new_postgresql_url.rpartition("/")[2]
    await postgresql.run(database, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    guest = new_postgresql_url.replace("virtflow@", "guest@")
    assert "lacks a right" in (await refusal(guest)).detail
    # once somebody else has made the tables, the rights on them are enough
    async with opened(new_postgresql_url):
        pass
    await postgresql.run(database, "GRANT ALL ON ALL TABLES IN SCHEMA public TO guest")
    async with opened(guest) as store:
        await add_instances(store, [instance(1)])


async def test_a_server_that_is_not_there_is_unavailable_and_named() -> None:
    with pytest.raises(Unavailable, match="VIRTFLOW_DATABASE_URL") as caught:
        await PostgresStore("postgresql://virtflow:s3cret@127.0.0.1:1/virtflow", connect_s=1.0).open()
    assert "s3cret" not in caught.value.detail
    assert "start the server" in caught.value.remedy


async def test_a_server_that_does_not_care_for_commits_is_made_to(
    postgresql: PostgresServer, new_postgresql_url: str
) -> None:
    database = new_postgresql_url.rpartition("/")[2]
    await postgresql.run(database, f"ALTER DATABASE {database} SET synchronous_commit = off")
    async with opened(new_postgresql_url) as store, store.transaction() as tx:
        tx._session._statements = {"ask": "SHOW synchronous_commit"}  # type: ignore[attr-defined]
        assert [tuple(row) for row in await tx._session.rows("ask")] == [("on",)]


@pytest.mark.slow
async def test_a_replica_is_refused() -> None:
    with postgres_server(wal_level="replica", hot_standby="on") as primary:
        url = await primary.create_database("virtflow")
        async with opened(url) as store:
            await set_setting(store, "k")
        with primary.replica() as replica:
            error = await refusal(replica.url("virtflow"))
            assert "is a replica" in error.detail
            look = PostgresStore(replica.url("virtflow"), reading=True)
            await look.open()
            assert await look.setting("k") == ""
            with pytest.raises(Unavailable):
                await set_setting(look, "k", "v")
            await look.close()


async def test_what_was_placed_while_its_deletion_waited_is_removed_with_its_host(store: PostgresStore) -> None:
    """The event of the deletion once named no host, so that nobody who followed the log gave the room back."""
    [host_id] = await add_hosts(store, "bm-1")
    await add_instances(store, [instance(1, shape_id=await intern(store))])

    async def remove() -> list[Removed]:
        async with store.transaction() as tx:
            return await tx.remove_instances([key(1)], at_ms=2)

    async with store.transaction() as tx:
        await tx.bind_instances([Bind(key(1), host_id, 1)], fence=0)
        removing = asyncio.create_task(remove())
        await until_somebody_waits_for_a_lock(store)
    [removed] = await removing
    assert (removed.instance.host_id, removed.instance.host) == (host_id, "bm-1")


async def until_somebody_waits_for_a_lock(store: PostgresStore) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(10), store._pool.acquire() as connection:
        while not await connection.fetchval(query):
            await asyncio.sleep(0.01)


async def test_a_leader_cut_off_in_the_middle_of_a_statement_does_not_hold_the_fence_for_ever(
    store: PostgresStore, postgresql_url: str
) -> None:
    """Between two messages of one statement no time-out of the server applies: once nobody could lead any more."""
    cut_off = await asyncpg.connect(postgresql_url)
    await cut_off.execute("BEGIN")
    await cut_off.fetch("SELECT value FROM counter WHERE name = 'fence' FOR SHARE")
    await cut_off.prepare("SELECT value + 1 FROM counter")  # nothing follows
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(Unavailable):
                async with store.transaction() as tx:
                    assert await tx.take_fence() == 1
                break
    cut_off.terminate()
