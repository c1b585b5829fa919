"""ETag and If-Match: nothing is overwritten that its writer has not seen."""

from collections.abc import Awaitable, Callable

import pytest
from tests.api.conftest import VM, WEBHOOK, Answer, Api

from virtflow.api.app import OPERATIONS

#: every conditional call -> method, path, body
CONDITIONAL = {
    "replace_host": ("PUT", "/v1/hosts/bm-001", {"capacity": {"cpu": 1}}),
    "change_host": ("PATCH", "/v1/hosts/bm-001", {"zone": "z"}),
    "delete_host": ("DELETE", "/v1/hosts/bm-001", None),
    "cordon_host": ("POST", "/v1/hosts/bm-001/cordon", None),
    "uncordon_host": ("POST", "/v1/hosts/bm-001/uncordon", None),
    "put_pool": ("PUT", "/v1/pools/ai", {}),
    "delete_pool": ("DELETE", "/v1/pools/ai", None),
    "delete_vm": ("DELETE", "/v1/vms/web", None),
    "cancel_task": ("POST", "/v1/tasks/waiting/cancel", None),
    "change_webhook": ("PATCH", "/v1/webhooks/ops", {"events": []}),
    "delete_webhook": ("DELETE", "/v1/webhooks/ops", None),
    "enable_webhook": ("POST", "/v1/webhooks/ops/enable", None),
    "disable_webhook": ("POST", "/v1/webhooks/ops/disable", None),
    "rotate_webhook": ("POST", "/v1/webhooks/ops/rotate", {}),
}
OF = {
    "hosts": "/v1/hosts/bm-001",
    "pools": "/v1/pools/ai",
    "vms": "/v1/vms/web",
    "tasks": "/v1/tasks/waiting",
    "webhooks": "/v1/webhooks/ops",
}

Ask = Callable[[str, str], Awaitable[Answer]]


def test_every_conditional_call_is_here() -> None:
    assert {operation.id for operation in OPERATIONS if operation.has_version} == set(CONDITIONAL)


@pytest.fixture
async def ask(api: Api, bm: str) -> Ask:
    await api.put("/v1/pools/ai", {})
    await api.post("/v1/webhooks", {**WEBHOOK, "enabled": False})
    await api.post("/v1/vms", {"name": "web", "resources": {"cpu": 10**6}})
    waiting = {"requested_cpu": 999, "requested_memory": 1, "requested_pool": "x", "dedicated": False}
    await api.post("/schedule", {**waiting, "task_id": "waiting", "when_unplaceable": "wait"})

    async def asking(name: str, if_match: str) -> Answer:
        method, path, body = CONDITIONAL[name]
        return await api(method, path, body, headers={"if-match": if_match})

    return asking


@pytest.mark.parametrize("name", CONDITIONAL)
async def test_an_old_version_is_refused_with_the_current_one(api: Api, ask: Ask, name: str) -> None:
    path = OF[CONDITIONAL[name][1].split("/")[2]]
    before = await api.get(path)
    current = before.json["version"]
    assert before.headers["etag"] == f'"{current}"'
    answer = await ask(name, f'"{current + 7}"')
    assert (answer.status, answer.code) == (412, "version_mismatch"), answer.body
    assert answer.json["current_version"] == current
    assert str(current) in answer.json["remedy"]
    assert (await api.get(path)).json["version"] == current


@pytest.mark.parametrize("name", CONDITIONAL)
async def test_the_current_version_and_any_version_are_obeyed(api: Api, ask: Ask, name: str) -> None:
    path = OF[CONDITIONAL[name][1].split("/")[2]]
    current = (await api.get(path)).headers["etag"]
    assert (await ask(name, current)).status in (200, 204)


@pytest.mark.parametrize("name", CONDITIONAL)
async def test_any_version_will_do_with_a_star(ask: Ask, name: str) -> None:
    assert (await ask(name, "*")).status in (200, 204)


async def test_what_names_no_version_is_refused(ask: Ask) -> None:
    for name in CONDITIONAL:
        for tag in ('W/"1"', "1", '"x"', '"1", "2"', '""', '"-1"', '"01"', '"1.0"', "", '"99999999999999999999"', "ü"):
            answer = await ask(name, tag)
            assert (answer.status, answer.code) == (400, "bad_header"), (name, tag)


async def test_a_star_asks_that_there_is_one(api: Api) -> None:
    for path in ("/v1/hosts/new", "/v1/pools/new"):
        answer = await api.put(path, {}, headers={"if-match": "*"})
        assert (answer.status, answer.code) == (412, "version_mismatch")
        assert (await api.get(path)).status == 404


async def test_other_conditions_are_refused_not_ignored(api: Api, bm: str) -> None:
    for header in ({"if-none-match": "*"}, {"if-unmodified-since": "Wed, 18 Nov 2026 21:20:00 GMT"}):
        assert (await api.put(f"/v1/hosts/{bm}", {}, headers=header)).code == "bad_header"


async def test_two_writers_of_one_version_are_one_winner(api: Api, bm: str) -> None:
    """F35: lost updates."""
    tag = (await api.get(f"/v1/hosts/{bm}")).headers["etag"]
    first = await api.patch(f"/v1/hosts/{bm}", {"zone": "a"}, headers={"if-match": tag})
    second = await api.patch(f"/v1/hosts/{bm}", {"zone": "b"}, headers={"if-match": tag})
    assert (first.status, second.status) == (200, 412)
    assert (await api.get(f"/v1/hosts/{bm}")).json["zone"] == "a"


async def test_a_placed_vm_is_deleted_by_its_version(api: Api, bm: str) -> None:
    vm = await api.post("/v1/vms", {**VM, "name": "b"})
    assert (await api.delete("/v1/vms/b", headers={"if-match": '"99"'})).status == 412
    assert (await api.delete("/v1/vms/b", headers={"if-match": vm.headers["etag"]})).status == 204
