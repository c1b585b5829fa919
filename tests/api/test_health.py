"""What a process says of itself to whoever watches it."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.api.conftest import Api, app_of, new_service

from virtflow.control import health
from virtflow.main import Service
from virtflow.model.errors import Unavailable

PATHS = ("/healthz", "/readyz")


async def test_a_process_says_what_it_does_and_that_it_is_well(api: Api) -> None:
    for path in PATHS:
        answer = await api.get(path)
        assert answer.status == 200
        assert answer.json["ok"] is True
        assert answer.json["parts"]["scheduler"] == "ok"
        assert answer.json["parts"]["database"] == "ok"
        assert answer.json["roles"] == ["api", "relay", "scheduler"]
        assert answer.json["offices"] == {"relay": "leading", "scheduler": "leading"}
        assert answer.json["behind"] is None


async def test_a_database_that_does_not_answer_turns_both_red(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise Unavailable("the database does not answer: gone fishing")

    monkeypatch.setattr(service.store, "ping", away)
    for path in PATHS:
        answer = await api.get(path)
        assert answer.status == 503
        assert answer.json["ok"] is False
        assert answer.json["parts"]["database"] == "the database does not answer: gone fishing"


async def test_a_database_that_hangs_does_not_make_the_probes_hang(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.store, "ping", asyncio.Event().wait)
    monkeypatch.setattr(health, "DATABASE_S_MAX", 0.02)
    for path in PATHS:
        answer = await api.get(path)
        assert answer.status == 503
        assert "did not answer within 0.02 s" in answer.json["parts"]["database"]


async def test_a_process_that_is_about_to_stop_is_well_but_not_ready(service: Service, api: Api) -> None:
    service.house.health.leaving.set()
    answer = await api.get("/readyz")
    assert (answer.status, answer.json["parts"]["process"]) == (503, "stopping")
    assert (await api.get("/healthz")).status == 200


@pytest.fixture
async def stuck() -> AsyncIterator[Service]:
    service = new_service()
    async with service.running():
        service.loops.watch("work of relay", lambda: "failing: it cannot")
        yield service


async def test_work_that_fails_turns_health_red_and_leaves_the_process_ready(stuck: Service) -> None:
    api = Api(app_of(stuck))
    answer = await api.get("/healthz")
    assert answer.status == 503
    assert answer.json["parts"]["work of relay"] == "failing: it cannot"
    assert (await api.get("/readyz")).status == 200
