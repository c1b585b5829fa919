"""Lease objects, on a small API of our own and on the real one: both must behave alike."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.election.conftest import Accounts

from virtflow.election.lease_api import LeaseApi, Refused
from virtflow.model.errors import Busy, Unavailable
from virtflow.testing.lease_api import NAMESPACE, FakeLeaseApi

_names = itertools.count(1)


def named(name: str, holder: str = "me") -> dict[str, object]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 2, "leaseTransitions": 1},
    }


@pytest.fixture
def name() -> str:
    return f"lease-{next(_names)}"


@pytest.fixture
async def api(accounts: Accounts, name: str) -> AsyncIterator[LeaseApi]:
    api = LeaseApi(accounts.url, account=accounts.good, namespace=NAMESPACE, name=name)
    yield api
    await api.close()


async def test_a_lease_is_made_once_and_read(api: LeaseApi, name: str) -> None:
    assert await api.read() is None
    made = await api.create(named(name))
    assert made is not None
    assert made["spec"]["holderIdentity"] == "me"
    assert await api.read() == made
    assert await api.create(named(name, "somebody else")) is None
    assert await api.read() == made


async def test_it_is_replaced_only_as_it_was_read(api: LeaseApi, name: str) -> None:
    made = await api.create(named(name))
    assert made is not None
    replaced = await api.replace({**made, "spec": {"holderIdentity": "you"}})
    assert replaced is not None
    assert replaced["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert await api.replace({**made, "spec": {"holderIdentity": "late"}}) is None
    now = await api.read()
    assert now is not None
    assert now["spec"] == {"holderIdentity": "you"}


async def test_one_that_was_deleted_is_made_again_by_who_replaces_it(api: LeaseApi, name: str) -> None:
    found = {**named(name), "metadata": {"name": name, "resourceVersion": "1"}}
    made = await api.replace(found)
    assert made is not None
    assert await api.read() == made


async def test_a_rehearsal_changes_nothing(api: LeaseApi, name: str) -> None:
    assert await api.create(named(name), dry=True) is not None
    assert await api.read() is None
    made = await api.create(named(name))
    assert made is not None
    assert await api.replace({**made, "spec": {"holderIdentity": "you"}}, dry=True) is not None
    assert await api.read() == made


async def test_a_stranger_is_refused(accounts: Accounts, name: str) -> None:
    api = LeaseApi(accounts.url, account=accounts.stranger, namespace=NAMESPACE, name=name)
    with pytest.raises(Refused, match="does not accept the token") as caught:
        await api.read()
    assert caught.value.status == 401
    await api.close()


async def test_who_may_not_write_is_told_what_is_missing(fake_api: FakeLeaseApi, tmp_path: Path) -> None:
    api = LeaseApi(fake_api.url, account=fake_api.account(tmp_path), namespace=NAMESPACE, name="a")
    fake_api.verbs = {"get"}
    assert await api.read() is None
    with pytest.raises(Refused, match=f"may not create leases in namespace '{NAMESPACE}'") as caught:
        await api.create(named("a"), dry=True)
    assert "Role with get, create and update of leases" in caught.value.remedy
    await api.close()


async def test_a_namespace_that_is_not_there_is_named(fake_api: FakeLeaseApi, tmp_path: Path) -> None:
    api = LeaseApi(fake_api.url, account=fake_api.account(tmp_path), namespace="nowhere", name="a")
    with pytest.raises(Refused, match="no namespace 'nowhere'"):
        await api.create(named("a"))
    await api.close()


@pytest.mark.parametrize(("told", "waits_s"), [("7", 7), ("", 1), ("soon", 1), ("99999", 60)])
async def test_a_busy_api_says_when_to_come_back(
    fake_api: FakeLeaseApi, tmp_path: Path, told: str, waits_s: int
) -> None:
    api = LeaseApi(fake_api.url, account=fake_api.account(tmp_path), namespace=NAMESPACE, name="a")
    fake_api.status, fake_api.headers = 429, {"retry-after": told}
    with pytest.raises(Busy) as caught:
        await api.read()
    assert caught.value.retry_after_s == waits_s
    await api.close()


async def test_an_api_that_is_ill_or_away_is_unavailable(fake_api: FakeLeaseApi, tmp_path: Path) -> None:
    api = LeaseApi(fake_api.url, account=fake_api.account(tmp_path), namespace=NAMESPACE, name="a")
    for fake_api.status in (500, 503, 302):
        with pytest.raises(Unavailable, match=f"answered {fake_api.status}"):
            await api.read()
    fake_api.status = 200
    with pytest.raises(Unavailable, match="something else than a Lease"):
        await api.read()
    await api.close()
    away = LeaseApi("http://127.0.0.1:1", account=fake_api.account(tmp_path), namespace=NAMESPACE, name="a")
    with pytest.raises(Unavailable, match="cannot be asked"):
        await away.read()
    await away.close()
