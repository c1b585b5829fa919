"""What is special about votes counted by a Kubernetes API: refusals, faults, and what others do to a Lease."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import certifi
import pytest

from virtflow.control.clock import SystemClock
from virtflow.election.candidate import Candidate
from virtflow.election.kubernetes import KubernetesBallot
from virtflow.election.open import lease_of
from virtflow.model.errors import InvalidSetting
from virtflow.testing.kube_apiserver import KubeApiserver
from virtflow.testing.lease_api import NAMESPACE, FakeLeaseApi

LEASE_S = 3.0
LEASE = "virtflow-scheduler"
WITHIN_S = 60.0


async def not_noted(_office: str, _holder: str, _term: int) -> None:
    """There is no database in these tests."""


_ballots: list[KubernetesBallot] = []


def ballot(url: str, account: Path, *, me: str = "one", lease: str = LEASE) -> Any:
    made = KubernetesBallot(
        url=url,
        account=account,
        lease=lease,
        office="scheduler",
        me=me,
        lease_s=LEASE_S,
        clock=SystemClock(),
        note=not_noted,
    )
    _ballots.append(made)
    return made


@pytest.fixture(autouse=True)
async def _closed_in_the_end() -> AsyncIterator[None]:
    yield
    while _ballots:
        await _ballots.pop().close()


def candidate(url: str, account: Path, me: str = "one") -> Candidate:
    return Candidate(ballot(url, account, me=me), office="scheduler", me=me, lease_s=LEASE_S, clock=SystemClock())


@pytest.fixture
def account(fake_api: FakeLeaseApi, tmp_path: Path) -> Path:
    return fake_api.account(tmp_path / "account")


def lease_in(api: FakeLeaseApi) -> dict[str, Any]:
    return api.leases[f"{NAMESPACE}/{LEASE}"]


# ── what can never work is said at the start ───────────────────────────────────────────────────────


async def refused(votes: KubernetesBallot) -> str:
    with pytest.raises(InvalidSetting) as caught:
        await votes.check()
    return f"{caught.value.detail} → {caught.value.remedy}"


async def test_a_role_that_may_not_write_is_told_before_anybody_campaigns(
    fake_api: FakeLeaseApi, account: Path
) -> None:
    fake_api.verbs = {"get"}
    words = await refused(ballot(fake_api.url, account))
    assert "VIRTFLOW_ELECTION='kubernetes' cannot be used" in words
    assert "may not create leases" in words
    assert "Role with get, create and update of leases" in words
    fake_api.verbs = {"get", "create"}
    await ballot(fake_api.url, account).take(None)
    assert "may not update leases" in await refused(ballot(fake_api.url, account))
    fake_api.verbs = set()
    assert "may not get leases" in await refused(ballot(fake_api.url, account))


async def test_an_unknown_token_and_an_unknown_namespace_are_told(fake_api: FakeLeaseApi, account: Path) -> None:
    assert "no namespace 'nowhere'" in await refused(ballot(fake_api.url, account, lease="nowhere/a"))
    (account / "token").write_text("another")
    assert "does not accept the token" in await refused(ballot(fake_api.url, account))


async def test_outside_of_a_pod_the_folder_of_the_account_is_asked_for(fake_api: FakeLeaseApi, tmp_path: Path) -> None:
    words = await refused(ballot(fake_api.url, tmp_path))
    assert f"VIRTFLOW_KUBERNETES_ACCOUNT='{tmp_path}'" in words
    assert "no file token" in words
    assert "VIRTFLOW_ELECTION=database" in words
    (tmp_path / "token").write_text("a-token")
    assert "no file ca.crt" in await refused(ballot("https://127.0.0.1:1", tmp_path))
    assert "it has no namespace" in await refused(ballot(fake_api.url, tmp_path))


async def test_an_api_that_is_away_may_come_back(fake_api: FakeLeaseApi, account: Path) -> None:
    await ballot("http://127.0.0.1:1", account).check()
    fake_api.status = 503
    await ballot(fake_api.url, account).check()
    assert fake_api.leases == {}


@pytest.mark.slow
@pytest.mark.xdist_group("kube-apiserver")
async def test_the_real_api_refuses_in_the_same_words(real_api: KubeApiserver, tmp_path: Path) -> None:
    assert "may not get leases" in await refused(ballot(real_api.url, real_api.account_of_nobody()))
    assert "does not accept the token" in await refused(ballot(real_api.url, real_api.account_of_a_stranger()))
    assert "may not get leases in namespace 'nowhere'" in await refused(
        ballot(real_api.url, real_api.account(), lease="nowhere/a")
    )
    account = real_api.account()
    (account / "ca.crt").write_text(certifi.contents())
    assert "the certificate of https://" in await refused(ballot(real_api.url, account))
    await ballot(real_api.url, real_api.account()).check()


# ── faults, while somebody leads ───────────────────────────────────────────────────────────────────


async def test_lost_answers_and_foreign_labels_end_no_term(fake_api: FakeLeaseApi, account: Path) -> None:
    votes = ballot(fake_api.url, account)
    held = await votes.take(None)
    fake_api.answers_lost = 1
    with pytest.raises(Exception, match="answered 504"):
        await votes.renew(held)
    held = await votes.renew(held)  # with what it knew before its own lost beat
    assert held is not None
    lease = lease_in(fake_api)
    labelled = {**lease, "metadata": {**lease["metadata"], "labels": {"a": "b"}, "resourceVersion": "1000"}}
    fake_api.leases[f"{NAMESPACE}/{LEASE}"] = labelled
    held = await votes.renew(held)
    assert held is not None
    assert lease_in(fake_api)["metadata"]["labels"] == {"a": "b"}
    assert held.term == 1


async def test_a_lease_says_to_people_what_they_expect(fake_api: FakeLeaseApi, account: Path) -> None:
    votes = ballot(fake_api.url, account)
    held = await votes.take(None)
    spec = lease_in(fake_api)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("one", 3, 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec["renewTime"])
    assert spec["renewTime"] == spec["acquireTime"]
    await votes.renew(held)
    assert lease_in(fake_api)["spec"]["renewTime"] > spec["renewTime"]
    await votes.leave(await votes.look())
    assert "holderIdentity" not in lease_in(fake_api)["spec"]


async def test_who_meets_another_holder_gives_up(fake_api: FakeLeaseApi, account: Path) -> None:
    votes, others = ballot(fake_api.url, account), ballot(fake_api.url, account, me="two")
    held = await votes.take(None)
    taken = await others.take(await others.look())
    assert (taken.holder, taken.term) == ("two", 2)
    assert await votes.renew(held) is None
    await votes.leave(held)
    assert lease_in(fake_api)["spec"]["holderIdentity"] == "two"


async def test_an_api_that_stops_answering_ends_the_term_by_our_own_clock(
    fake_api: FakeLeaseApi, account: Path
) -> None:
    one = candidate(fake_api.url, account)
    term = await one.campaign()
    asyncio.get_running_loop().call_later(0.1, fake_api.stall)
    async with asyncio.timeout(WITHIN_S):
        await term.ended()
        assert not term.is_valid()
        fake_api.flow()
        assert (await one.campaign()).is_valid()
    await one.close()


@pytest.mark.parametrize("status", [429, 500, 403])
async def test_an_api_that_refuses_for_a_while_is_asked_again(
    fake_api: FakeLeaseApi, account: Path, status: int
) -> None:
    one = candidate(fake_api.url, account)
    fake_api.status = status
    campaign = asyncio.create_task(one.campaign())
    async with asyncio.timeout(WITHIN_S):
        while one.state == "following":
            await asyncio.sleep(0.01)
        assert "Kubernetes API" in one.state or "service account" in one.state
        fake_api.status = None
        term = await campaign
    assert one.state == "leading"
    await one.close()
    assert not term.is_valid()


async def test_a_token_that_is_exchanged_while_we_run_is_read_again(fake_api: FakeLeaseApi, account: Path) -> None:
    votes = ballot(fake_api.url, account)
    good = (account / "token").read_text()
    (account / "token").write_text("expired")
    with pytest.raises(Exception, match="does not accept the token"):
        await votes.look()
    (account / "token").write_text(good)
    assert await votes.look() is None


def test_each_office_has_a_lease_of_its_own() -> None:
    assert lease_of("scheduler", "virtflow-scheduler") == "virtflow-scheduler"
    assert lease_of("relay", "virtflow-scheduler") == "virtflow-relay"
    assert lease_of("relay", "apps/leader") == "apps/leader-relay"
