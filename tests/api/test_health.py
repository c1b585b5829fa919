"""What a process says of itself to whoever watches it."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.api.conftest import VM, Api, app_of, host, new_service

from virtflow.config import SETTINGS
from virtflow.control import health
from virtflow.control.remedies import REMEDIES, remedy_for
from virtflow.main import Service
from virtflow.model.errors import Unavailable

DOCS = Path(__file__).parents[2] / "docs"
PATHS = ("/healthz", "/readyz")


async def test_a_process_says_what_it_does_and_that_it_is_well(api: Api) -> None:
    for path in PATHS:
        answer = await api.get(path)
        assert answer.status == 200
        assert (answer.json["ok"], answer.json["status"], answer.json["unwell"]) == (True, "ok", [])
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
        assert (answer.json["ok"], answer.json["status"]) == (False, "failing")
        assert [(one["part"], one["status"]) for one in answer.json["unwell"]] == [("database", "failing")]
        assert "virtflow doctor" in answer.json["unwell"][0]["remedy"]
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


@pytest.fixture
async def without_a_broker() -> AsyncIterator[Service]:
    service = new_service(broker_url="amqp://guest:hunter2@127.0.0.1:1/")
    async with service.running():
        await service.house.health.look()
        yield service


async def test_a_part_that_work_does_not_need_degrades_the_process_and_turns_no_probe_red(
    without_a_broker: Service,
) -> None:
    api = Api(app_of(without_a_broker))
    answer = await api.get("/healthz")
    assert (answer.status, answer.json["ok"], answer.json["status"]) == (200, True, "degraded")
    [unwell] = answer.json["unwell"]
    assert (unwell["part"], unwell["status"]) == ("broker", "degraded")
    assert "VIRTFLOW_BROKER_URL" in unwell["remedy"]
    assert unwell["cause"] in answer.json["parts"]["broker"]
    assert "hunter2" not in answer.body.decode()
    ready = await api.get("/readyz")
    assert (ready.status, ready.json["status"], ready.json["unwell"]) == (200, "ok", [])
    # and whoever asks for something else sees it too
    assert b'virtflow_part_up{part="broker"} 0.0' in (await api.get("/metrics")).body
    assert b'virtflow_part_up{part="database"} 1.0' in (await api.get("/metrics")).body
    [process] = (await api.get("/v1/processes")).json["items"]
    assert (process["state"], process["health"]) == ("here", "degraded")
    assert process["unwell"] == [unwell]
    # and work goes on
    assert (await api.post("/v1/hosts", host())).status == 201
    assert (await api.post("/v1/vms", VM)).status == 202


async def test_since_is_when_it_was_seen_first(without_a_broker: Service) -> None:
    health = without_a_broker.house.health
    [first] = health.unwell
    await asyncio.sleep(0.005)
    await health.look()
    assert health.unwell[0].since_ms == first.since_ms
    assert (await health.check()).unwell[0].since_ms == first.since_ms


async def test_a_database_that_goes_and_comes_back_is_two_lines(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise Unavailable("gone fishing")

    look = service.house.health.look
    with capture_logs() as lines:
        with monkeypatch.context() as patched:
            patched.setattr(service.store, "ping", away)
            for _ in range(3):
                await look()
        for _ in range(3):
            await look()
    assert [line for line in lines if line["event"].startswith("database.")] == [
        {"event": "database.lost", "error": "gone fishing", "log_level": "warning"},
        {"event": "database.back", "log_level": "info"},
    ]


async def test_every_part_of_a_process_has_a_row_in_the_documentation_and_a_remedy(service: Service) -> None:
    told = (DOCS / "cluster.md").read_text().partition("## Health")[2].partition("## Stopping")[0]
    for part in (await service.house.health.check()).parts:
        assert remedy_for(part)
    for beginning in REMEDIES:
        first, _, rest = beginning.partition(" ")
        assert first in told, beginning
        assert rest in told
    named = {word for remedy in REMEDIES.values() for word in re.findall(r"VIRTFLOW_[A-Z_]+", remedy)}
    assert named <= {setting.variable for setting in SETTINGS}
