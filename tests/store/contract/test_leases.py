"""Leases: who names what he saw may change them, and nobody else."""

import msgspec
import pytest
from tests.store.conftest import OpenAnother

from virtflow.model.lease import Lease
from virtflow.store.contract import Store
from virtflow.testing.postgres import PostgresServer


async def take(store: Store, holder: str = "a", *, office: str = "scheduler") -> Lease:
    lease = await store.take_lease(office, holder=holder, seen=await store.lease(office))
    assert lease is not None
    return lease


async def test_an_office_that_nobody_ever_held_goes_to_the_first(store: Store) -> None:
    assert await store.lease("scheduler") is None
    lease = await store.take_lease("scheduler", holder="a", seen=None)
    assert lease is not None
    assert (lease.office, lease.holder, lease.term, lease.is_attended) == ("scheduler", "a", 1, True)
    assert lease.since_ms > 1_700_000_000_000
    assert await store.lease("scheduler") == lease
    assert await store.take_lease("scheduler", holder="b", seen=None) is None
    assert await store.lease("scheduler") == lease


async def test_it_is_taken_only_as_it_was_seen(store: Store) -> None:
    seen = await take(store)
    beaten = await store.renew_lease(seen)
    assert beaten is not None
    assert await store.take_lease("scheduler", holder="b", seen=seen) is None
    taken = await store.take_lease("scheduler", holder="b", seen=beaten)
    assert taken is not None
    assert (taken.holder, taken.term) == ("b", 2)
    assert await store.take_lease("scheduler", holder="c", seen=beaten) is None
    assert await store.lease("scheduler") == taken


async def test_every_beat_shows_and_only_the_holder_beats(store: Store) -> None:
    first = await take(store)
    second = await store.renew_lease(first)
    assert second is not None
    assert second.beat > first.beat
    assert (second.term, second.since_ms) == (first.term, first.since_ms)
    assert await store.renew_lease(first) is None  # it has beaten since
    taken = await take(store, "b")
    assert await store.renew_lease(second) is None
    assert await store.lease("scheduler") == taken


async def test_who_leaves_leaves_nobody_behind(store: Store) -> None:
    lease = await take(store)
    await store.leave_lease(lease)
    left = await store.lease("scheduler")
    assert left is not None
    assert (left.holder, left.term) == ("", 1)
    assert await store.renew_lease(lease) is None
    taken = await take(store, "b")
    assert taken.term == 2
    await store.leave_lease(lease)  # too late to matter
    assert await store.lease("scheduler") == taken


async def test_offices_are_strangers_to_each_other(store: Store) -> None:
    relay, scheduler = await take(store, "a", office="relay"), await take(store, "b")
    assert [lease.office for lease in await store.leases()] == ["relay", "scheduler"]
    await store.leave_lease(relay)
    assert await store.lease("scheduler") == scheduler


async def test_what_was_decided_elsewhere_is_noted(store: Store) -> None:
    await store.note_lease("scheduler", holder="a", term=7)
    await store.note_lease("scheduler", holder="b", term=9)
    lease = await store.lease("scheduler")
    assert lease is not None
    assert (lease.holder, lease.term) == ("b", 9)


async def test_a_session_that_lives_has_not_ended(store: Store) -> None:
    await take(store)
    assert not store.lease_session().is_set()


@pytest.mark.service("postgresql")
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_others_see_that_the_session_of_a_holder_is_gone(store: Store, another: OpenAnother) -> None:
    other = await another()
    lease = await take(other, "b")
    session = other.lease_session()
    assert await store.lease("scheduler") == lease
    await other.close()
    assert session.is_set()
    seen = await store.lease("scheduler")
    while seen is not None and seen.is_attended:  # the server needs a moment to notice
        seen = await store.lease("scheduler")
    assert seen == msgspec.structs.replace(lease, is_attended=False)


@pytest.mark.service("postgresql")
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_a_session_that_broke_has_ended_and_a_new_one_is_made(store: Store, postgresql: PostgresServer) -> None:
    lease = await take(store)
    session = store.lease_session()
    await postgresql.run(
        "virtflow",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'virtflow election'",
    )
    await session.wait()
    assert await store.renew_lease(lease) is not None
    assert not store.lease_session().is_set()
