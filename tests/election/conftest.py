"""Whoever can count votes, for the suites that all of them must pass."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from virtflow.testing import kube_apiserver
from virtflow.testing.kube_apiserver import KubeApiserver
from virtflow.testing.lease_api import FakeLeaseApi, fake_lease_api

NO_KUBERNETES = (
    f"no kube-apiserver with an etcd on this machine: set {kube_apiserver.VARIABLE}, or run tools/kube_apiserver.sh"
)


class Accounts(NamedTuple):
    """A Kubernetes API, and folders of service accounts for it."""

    url: str
    good: Path
    stranger: Path


@pytest.fixture
async def fake_api() -> AsyncIterator[FakeLeaseApi]:
    async with fake_lease_api() as api:
        yield api


@pytest.fixture(scope="session")
def real_api() -> Iterator[KubeApiserver]:
    if kube_apiserver.find_program() is None:
        pytest.skip(NO_KUBERNETES)
    with kube_apiserver.kube_apiserver() as api:
        yield api


@pytest.fixture(
    params=["fake", pytest.param("real", marks=[pytest.mark.slow, pytest.mark.xdist_group("kube-apiserver")])]
)
def accounts(request: pytest.FixtureRequest, tmp_path: Path) -> Accounts:
    return accounts_of(request.param, request, tmp_path)


def accounts_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Accounts:
    if kind == "real":
        real: KubeApiserver = request.getfixturevalue("real_api")
        return Accounts(real.url, real.account(), real.account_of_a_stranger())
    fake: FakeLeaseApi = request.getfixturevalue("fake_api")
    stranger = fake.account(tmp_path / "stranger")
    (stranger / "token").write_text("another")
    return Accounts(fake.url, fake.account(tmp_path / "account"), stranger)
