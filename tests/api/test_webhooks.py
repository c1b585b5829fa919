"""Webhooks over HTTP: secrets are shown once, addresses that are not public are refused, messages are listed."""

from collections.abc import AsyncIterator

import pytest
from tests.api.conftest import SCHEDULE, VM, WEBHOOK, Api, app_of, host, new_service

from virtflow.testing.receiver import Behaviour, Receiver, receiver

OPS = "/v1/webhooks/ops"


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    async with receiver() as hook:
        yield hook


async def test_a_webhook_is_made_with_a_secret_that_is_shown_once(api: Api) -> None:
    made = await api.post("/v1/webhooks", WEBHOOK)
    assert (made.status, made.headers["location"], made.headers["etag"]) == (201, OPS, '"1"')
    secret = made.json["secret"]
    assert secret.startswith("whsec_")
    assert made.json["url"] == "http://127.0.0.1:9/hook?token=***"
    rotated = await api.post(f"{OPS}/rotate", {"overlap_s": 60})
    assert rotated.json["secret"] not in ("", secret)
    assert rotated.json["overlap_until"]
    for path in ("/v1/webhooks", OPS, "/v1/events", f"{OPS}/deliveries", "/v1/outlets", "/metrics"):
        said = (await api.get(path)).body
        assert b"whsec_" not in said, path
        assert b"t0ken" not in said, path


async def test_the_same_key_shows_the_same_secret_again(api: Api) -> None:
    key = {"idempotency-key": "k"}
    first = await api.post("/v1/webhooks", WEBHOOK, headers=key)
    assert (await api.post("/v1/webhooks", WEBHOOK, headers=key)).json["secret"] == first.json["secret"]


async def test_a_webhook_is_read_changed_and_deleted(api: Api) -> None:
    await api.post("/v1/webhooks", {**WEBHOOK, "enabled": False, "description": "for us"})
    read = await api.get(OPS)
    assert (read.json["state"], read.json["enabled"], read.json["description"]) == ("disabled", False, "for us")
    changed = await api.patch(OPS, {"events": None, "description": None, "url": "http://127.0.0.1:9/other"})
    assert (changed.json["events"], changed.json["description"], changed.json["version"]) == ([], "", 2)
    assert (await api.delete(OPS)).status == 204
    gone = await api.get(OPS)
    assert (gone.status, gone.code) == (404, "webhook_not_found")


async def test_webhooks_are_listed_in_pages(api: Api) -> None:
    for name in ("c", "a", "b"):
        await api.post("/v1/webhooks", {**WEBHOOK, "name": name, "enabled": False})
    page = (await api.get("/v1/webhooks?limit=2")).json
    assert [one["name"] for one in page["items"]] == ["a", "b"]
    rest = (await api.get(f"/v1/webhooks?limit=2&cursor={page['next']}")).json
    assert ([one["name"] for one in rest["items"]], rest["next"]) == (["c"], None)
    assert (await api.get("/v1/webhooks?cursor=aDE")).code == "invalid_cursor"


async def test_one_without_a_name_gets_one(api: Api) -> None:
    made = await api.post("/v1/webhooks", {"url": WEBHOOK["url"]})
    assert made.json["name"].startswith("webhook-")
    assert made.json["events"] == []


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://169.254.169.254/latest/",
        "https://[64:ff9b::a9fe:a9fe]/",
        "http://localhost/",
    ],
)
async def test_what_is_not_public_is_refused_with_the_way_out(url: str) -> None:
    service = new_service(webhook_allow="")
    async with service.running():
        api = Api(app_of(service))
        await api.post("/v1/hosts", host())
        refused = await api.post("/v1/webhooks", {"url": url})
        assert (refused.status, refused.code, refused.pointers) == (422, "forbidden_address", ["/url"])
        assert "VIRTFLOW_WEBHOOK_ALLOW" in refused.json["remedy"]
        if "localhost" not in url:
            for path, body, place in (
                ("/schedule", SCHEDULE, "/callback_url"),
                ("/v1/vms", VM, "/callback_url"),
            ):
                refused = await api.post(path, {**body, "callback_url": url})
                assert (refused.status, refused.code, refused.pointers) == (422, "forbidden_address", [place])


@pytest.mark.parametrize(
    "url",
    ["ftp://a.example/", "http://a@b.example/", "http://127.1/", "http://a.example/#x", "http://0x7f000001/", "x"],
)
async def test_what_is_no_url_for_us_is_refused(api: Api, url: str) -> None:
    for path, body in (
        ("/v1/webhooks", {}),
        ("/v1/vms", {**VM, "callback_url": url}),
        ("/schedule", {**SCHEDULE, "callback_url": url}),
    ):
        refused = await api.post(path, body or {"url": url})
        assert (refused.status, refused.code) == (422, "invalid_request")
        assert refused.pointers == ["/url" if not body else "/callback_url"]


async def test_a_callback_secret_needs_a_callback_url(api: Api, bm: str) -> None:
    secret = "whsec_" + "A" * 32
    for path, body in (("/v1/vms", VM), ("/schedule", SCHEDULE)):
        refused = await api.post(path, {**body, "callback_secret": secret})
        assert (refused.status, refused.pointers) == (422, ["/callback_secret"])
    batch = {"items": [VM, {**VM, "callback_secret": secret}]}
    assert (await api.post("/v1/vms/batch", batch)).pointers == ["/items/1/callback_secret"]


async def test_the_end_of_a_task_is_told_and_listed(api: Api, bm: str, hook: Receiver) -> None:
    made = await api.post("/v1/vms", {**VM, "callback_url": hook.url})
    assert made.status == 202
    submitted = await api.post("/schedule", {**SCHEDULE, "callback_url": hook.url})
    await hook.until(lambda hook: len(hook.messages) >= 2)
    told = {message.event["subject"]: message.event["type"] for message in hook.messages}
    assert told == {
        f"task/{made.json['task_id']}": "virtflow.task.completed",
        f"task/{submitted.json['task_id']}": "virtflow.task.failed",
    }
    listed = (await api.get("/v1/webhooks/-/deliveries")).json["items"]
    assert {one["subject"] for one in listed} == set(told)
    one = await api.get(f"/v1/webhooks/-/deliveries/{listed[0]['id']}")
    assert one.json["message_id"] in hook.ids
    assert (await api.get(f"{OPS}/deliveries/{listed[0]['id']}")).code == "delivery_not_found"


async def test_another_callback_secret_is_another_request(api: Api, bm: str, hook: Receiver) -> None:
    """A secret prints as a mask; the key must still tell two of them apart."""
    key = {"idempotency-key": "k"}
    order = {**VM, "callback_url": hook.url, "callback_secret": "whsec_" + "A" * 32}
    assert (await api.post("/v1/vms", order, headers=key)).status == 202
    assert (await api.post("/v1/vms", order, headers=key)).headers["idempotency-replayed"] == "true"
    other = {**order, "callback_secret": "whsec_" + "B" * 32}
    assert (await api.post("/v1/vms", other, headers=key)).code == "idempotency_key_reused"


async def test_a_test_tells_how_it_went_and_messages_are_paged(api: Api, hook: Receiver) -> None:
    await api.post("/v1/webhooks", {"name": "ops", "url": hook.url, "enabled": False})
    assert (await api.post(f"{OPS}/test")).json["state"] == "delivered"
    hook.behaviour = Behaviour.REDIRECT
    failed = (await api.post(f"{OPS}/test")).json
    assert (failed["state"], failed["status"], failed["code"]) == ("dead", 302, "redirect_refused")
    page = (await api.get(f"{OPS}/deliveries?limit=1")).json
    assert [one["id"] for one in page["items"]] == [failed["id"]]
    rest = (await api.get(f"{OPS}/deliveries?limit=1&cursor={page['next']}")).json
    assert ([one["state"] for one in rest["items"]], rest["next"]) == (["delivered"], None)
    assert len((await api.get(f"{OPS}/deliveries?state=dead")).json["items"]) == 1
    again = await api.post(f"{OPS}/deliveries/{failed['id']}/redeliver")
    assert (again.json["state"], again.json["tries"]) == ("waiting", 0)
    assert (await api.get(OPS)).json["waiting"] == 1


async def test_what_is_not_there_is_said_to_be_not_there(api: Api) -> None:
    await api.post("/v1/webhooks", {**WEBHOOK, "enabled": False})
    for path in ("/v1/webhooks/nobody", "/v1/webhooks/NO", "/v1/webhooks/nobody/deliveries", "/v1/webhooks/-"):
        assert (await api.get(path)).code == "webhook_not_found", path
    for wrong in ("x", "a" * 100, "0193a5c0-0000-4000-8000-000000000000"):
        assert (await api.get(f"{OPS}/deliveries/{wrong}")).code == "delivery_not_found"
    taken = await api.post("/v1/webhooks", WEBHOOK)
    assert (taken.status, taken.code) == (409, "already_exists")
    assert (await api.post(f"{OPS}/replay", {"after": 10**9})).pointers == ["/after"]
