"""What every election promises, whoever counts the votes."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.election.conftest import Accounts, accounts_of

from virtflow.control.clock import SystemClock
from virtflow.election import Election
from virtflow.election.alone import Alone
from virtflow.election.open import open_election
from virtflow.store.contract import Store
from virtflow.store.open import open_store

#: long beside what a busy machine makes one wait for; what is awaited here does not wait for its end
LEASE_S = 6.0
WITHIN_S = 60.0
Stand = Callable[[str], Election]

_postgresql = pytest.mark.service("postgresql")
_kinds = [
    pytest.param("alone"),
    pytest.param("database", marks=_postgresql),
    pytest.param("fake kubernetes", marks=_postgresql),
    pytest.param("real kubernetes", marks=[_postgresql, pytest.mark.slow, pytest.mark.xdist_group("kube-apiserver")]),
]
several = pytest.mark.parametrize("polls", _kinds[1:], indirect=True)


class Polls(NamedTuple):
    """Where everybody votes."""

    kind: str
    database_url: str = ""
    accounts: Accounts | None = None


@pytest.fixture(params=_kinds)
def polls(request: pytest.FixtureRequest, tmp_path: Path) -> Polls:
    if request.param == "alone":
        return Polls("alone")
    url = str(request.getfixturevalue("postgresql_url"))
    if request.param == "database":
        return Polls("database", url)
    return Polls("kubernetes", url, accounts_of(request.param.partition(" ")[0], request, tmp_path))


@pytest.fixture
async def stand(polls: Polls) -> AsyncIterator[Stand]:
    """`stand("me")`: an election as the process of that name sees it."""
    kind, url, accounts = polls
    async with contextlib.AsyncExitStack() as stack:
        stores: dict[str, Store] = {}
        for me in ("one", "two", "three") if url else ():
            stores[me] = open_store(url, origin=me)
            await stores[me].open()
            stack.push_async_callback(stores[me].close)
        lease = f"election-{next(_numbers)}"  # the real API is one for all tests

        def standing(me: str) -> Election:
            if kind == "alone":
                return Alone("scheduler")
            election = open_election(
                "scheduler",
                store=stores[me],
                lease_s=LEASE_S,
                clock=SystemClock(),
                kind=kind,
                kubernetes_url=accounts.url if accounts else "",
                kubernetes_account=accounts.good if accounts else Path(),
                kubernetes_lease=lease,
            )
            stack.push_async_callback(election.close)
            return election

        yield standing


_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
async def _no_longer_than() -> AsyncIterator[None]:
    async with asyncio.timeout(WITHIN_S):
        yield


async def test_who_stands_alone_is_elected(stand: Stand) -> None:
    one = stand("one")
    await one.check()
    assert (one.office, one.state) == ("scheduler", "following")
    term = await one.campaign()
    assert (term.office, one.state) == ("scheduler", "leading")
    assert term.is_valid()


async def test_who_resigned_may_be_elected_again_to_a_later_term(stand: Stand) -> None:
    one = stand("one")
    first = await one.campaign()
    await first.resign()
    assert not first.is_valid()
    await first.ended()
    second = await one.campaign()
    assert second.number > first.number
    assert second.is_valid()


async def test_closing_ends_the_term(stand: Stand) -> None:
    one = stand("one")
    term = await one.campaign()
    await one.close()
    assert not term.is_valid()
    assert one.state == "following"


@several
async def test_of_several_one_is_elected(stand: Stand) -> None:
    elections = [stand(me) for me in ("one", "two", "three")]
    campaigns = [asyncio.create_task(one.campaign()) for one in elections]
    await asyncio.wait(campaigns, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(LEASE_S / 3)
    assert sum(campaign.done() for campaign in campaigns) == 1
    assert sorted(one.state for one in elections) == ["following", "following", "leading"]
    for campaign in campaigns:
        campaign.cancel()
    await asyncio.gather(*campaigns, return_exceptions=True)


@several
async def test_who_resigns_is_followed_by_another_in_a_later_term(stand: Stand) -> None:
    one, two = stand("one"), stand("two")
    first = await one.campaign()
    second = asyncio.create_task(two.campaign())
    await asyncio.sleep(0.1)
    await first.resign()
    assert (await second).number == first.number + 1
    assert (one.state, two.state) == ("following", "leading")


@several
async def test_who_leads_is_written_in_the_database(stand: Stand, polls: Polls) -> None:
    one, two = stand("one"), stand("two")
    store = open_store(polls.database_url, reading=True)
    await store.open()
    first = await one.campaign()
    [lease] = await store.leases()
    assert (lease.office, lease.holder, lease.term) == ("scheduler", "one", first.number)
    await first.resign()
    second = await two.campaign()
    [lease] = await store.leases()
    assert (lease.holder, lease.term) == ("two", second.number)
    await store.close()
