"""The same key and the same request: done once, answered the same."""

import asyncio
from pathlib import Path

import pytest
from tests.api.conftest import SCHEDULE, VM, WEBHOOK, Api, app_of, host, new_service
from tests.api.test_dead import failed

from virtflow.api.app import OPERATIONS
from virtflow.store.open import open_store

KEY = {"idempotency-key": "7b1c"}
#: every call that may be repeated -> path, body, another body
REPEATABLE = {
    "submit": ("/schedule", SCHEDULE, {**SCHEDULE, "requested_cpu": 9}),
    "register_host": ("/v1/hosts", host("new"), host("newer")),
    "register_hosts": ("/v1/hosts/batch", {"items": [host("new")]}, {"items": [host("newer")]}),
    "cordon_host": ("/v1/hosts/bm-001/cordon", None, None),
    "uncordon_host": ("/v1/hosts/bm-001/uncordon", None, None),
    "create_vm": ("/v1/vms", {**VM, "name": "a"}, {**VM, "name": "b"}),
    "create_vms": ("/v1/vms/batch", {"items": [VM]}, {"items": [VM], "mode": "all_or_nothing"}),
    "delete_vms": ("/v1/vms/batch-delete", {"names": ["web"]}, {"names": ["bew"]}),
    "cancel_task": ("/v1/tasks/waiting/cancel", None, None),
    "requeue_dead": ("/v1/dead/{dead}/requeue", None, None),
    "create_webhook": ("/v1/webhooks", {**WEBHOOK, "name": "new"}, {**WEBHOOK, "name": "newer"}),
    "enable_webhook": ("/v1/webhooks/ops/enable", None, None),
    "disable_webhook": ("/v1/webhooks/ops/disable", None, None),
    "rotate_webhook": ("/v1/webhooks/ops/rotate", {"overlap_s": 1}, {"overlap_s": 2}),
    "test_webhook": ("/v1/webhooks/ops/test", None, None),
    "replay_webhook": ("/v1/webhooks/ops/replay", {"after": 0}, {"after": 1}),
    "redeliver": ("/v1/webhooks/ops/deliveries/{delivery}/redeliver", None, None),
}


def test_every_repeatable_call_is_here() -> None:
    assert {operation.id for operation in OPERATIONS if operation.repeatable} == set(REPEATABLE)


@pytest.fixture
async def things(api: Api, bm: str) -> None:
    await api.post("/v1/vms", {**VM, "name": "web"})
    await api.post("/schedule", {**SCHEDULE, "task_id": "waiting", "when_unplaceable": "wait"})
    await api.post("/v1/webhooks", {**WEBHOOK, "enabled": False})


@pytest.mark.parametrize("name", REPEATABLE)
async def test_the_same_again_is_replayed_and_another_is_refused(api: Api, things: None, name: str) -> None:
    path, body, other = REPEATABLE[name]
    if "{dead}" in path:
        path = path.replace("{dead}", await failed(api))
    if "{delivery}" in path:
        path = path.replace("{delivery}", (await api.post("/v1/webhooks/ops/test")).json["id"])
    first = await api.post(path, body, headers=KEY)
    assert first.status < 300, first.body
    newest = (await api.get("/v1/events")).json["newest"]
    again = await api.post(path, body, headers=KEY)
    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["idempotency-replayed"] == "true"
    for header in ("location", "etag", "content-type"):
        assert again.headers.get(header) == first.headers.get(header)
    assert (await api.get("/v1/events")).json["newest"] == newest
    if other is not None:
        refused = await api.post(path, other, headers=KEY)
        assert (refused.status, refused.code) == (422, "idempotency_key_reused")
    assert (await api.post("/v1/vms", {**VM, "name": "elsewhere"}, headers=KEY)).code == "idempotency_key_reused"


async def test_what_means_the_same_is_the_same_however_it_is_written(api: Api, bm: str) -> None:
    first = await api.post("/v1/vms", raw=b'{"resources":{"cpu":1000,"memory":1}}', headers=KEY)
    again = await api.post("/v1/vms", raw=b'{ "pool":"default", "resources": {"memory":1.0, "cpu":1000} }', headers=KEY)
    assert again.body == first.body


async def test_a_refused_request_leaves_its_key_free(api: Api, bm: str) -> None:
    assert (await api.post("/v1/vms", {**VM, "pool": "nope"}, headers=KEY)).status == 422
    assert (await api.post("/v1/vms", VM, headers=KEY)).status == 202


async def test_many_at_once_are_done_once(api: Api, bm: str) -> None:
    """F33: parallel requests with one key."""
    answers = await asyncio.gather(*(api.post("/v1/vms", VM, headers=KEY) for _ in range(20)))
    assert {answer.status for answer in answers} == {202}
    assert len({answer.body for answer in answers}) == 1
    assert len((await api.get("/v1/vms")).json["items"]) == 1


async def test_many_at_once_with_one_task_id_are_one_task(api: Api, bm: str) -> None:
    answers = await asyncio.gather(*(api.post("/schedule", {**SCHEDULE, "task_id": "mine"}) for _ in range(10)))
    assert {(answer.status, answer.json["task_id"]) for answer in answers} == {(202, "mine")}
    assert len((await api.get("/v1/tasks")).json["items"]) == 1


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "ü", "a\tb"])
async def test_a_key_is_visible_ascii(api: Api, bm: str, key: str) -> None:
    for path, body in (("/v1/vms", VM), ("/v1/hosts", host("x"))):
        answer = await api.post(path, body, headers={"idempotency-key": key})
        assert (answer.status, answer.code) == (400, "bad_header")
    assert (await api.get("/v1/vms")).json["items"] == []


async def test_an_explanation_has_nothing_to_repeat(api: Api, bm: str) -> None:
    for _ in range(2):
        answer = await api.post("/v1/placements/explain", VM, headers=KEY)
        assert (answer.status, "idempotency-replayed" in answer.headers) == (200, False)


async def test_the_answer_outlives_a_restart(tmp_path: Path) -> None:
    bodies = []
    for _ in range(2):
        service = new_service(store=open_store(f"sqlite:///{tmp_path}/virtflow.db"))
        async with service.running():
            api = Api(app_of(service))
            bodies.append((await api.post("/v1/hosts", host(), headers=KEY)).body)
    assert bodies[0] == bodies[1]
