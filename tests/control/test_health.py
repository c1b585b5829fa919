"""What each of several processes says of itself."""

import pytest
from tests.control.conftest import host, order
from tests.control.test_cluster import Pair, Together, pair, soon, together
from tests.control.test_schedule import create, register

__all__ = ["pair", "together"]

pytestmark = pytest.mark.service("postgresql")


async def test_each_says_whether_it_leads(pair: Pair) -> None:
    leading, following = await pair.leader.house.health.check(), await pair.follower.house.health.ready()
    assert (leading.ok, following.ok) == (True, True)
    assert (leading.offices["scheduler"], following.offices["scheduler"]) == ("leading", "following")
    assert (leading.parts["scheduler"], following.parts["scheduler"]) == ("ok", "following")
    await pair.change_the_lead()
    assert (await pair.leader.house.health.check()).offices["scheduler"] == "leading"
    assert (await pair.follower.house.health.check()).offices["scheduler"] == "following"


async def test_a_process_that_only_serves_is_ready_although_it_never_leads(together: Together) -> None:
    async with together(role="api") as pair:
        for service in (pair.first, pair.second):
            report = await service.house.health.ready()
            assert (report.ok, report.roles, report.offices) == (True, ["api"], {})
            assert (await service.house.health.check()).ok


async def test_behind_is_what_the_mirror_has_not_heard_of(pair: Pair) -> None:
    async def is_level() -> bool:
        reports = [await service.house.health.ready() for service in (pair.first, pair.second)]
        return all(report.ok and report.behind == 0 for report in reports)

    await register(pair.leader, host("bm-1"))
    await create(pair.leader, order())
    await soon(is_level)
    following = pair.follower.follower._following
    async with following:  # it cannot follow now
        await create(pair.leader, order(), order())
        report = await pair.follower.house.health.ready()
        assert report.behind is not None
        assert report.behind >= 2
    await soon(is_level)
