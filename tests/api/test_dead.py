"""Dead letters over HTTP."""

import asyncio

from tests.api.conftest import VM, Api

TOO_LARGE = {"requested_cpu": 10**6, "requested_memory": 1, "requested_pool": "default", "dedicated": False}


async def failed(api: Api) -> str:
    """A request that nothing can carry, when it is over: at once, since it may not wait."""
    task = (await api.post("/v1/vms", {"resources": {"cpu": 10**9}, "when_unplaceable": "fail"})).json["task_id"]
    while (await api.get(f"/v1/tasks/{task}")).json["state"] != "failed":
        await asyncio.sleep(0.02)
    return str(task)


async def test_a_letter_tells_what_failed_and_why(api: Api, bm: str) -> None:
    task = await failed(api)
    assert [letter["id"] for letter in (await api.get("/v1/dead")).json["items"]] == [task]
    letter = (await api.get(f"/v1/dead/{task}")).json
    assert (letter["kind"], letter["code"], letter["tasks"], letter["pool"]) == (
        "task", "larger_than_any_host", [task], "default",
    )  # fmt: skip
    assert letter["vm"].startswith("vm-")
    assert letter["reason"]
    assert (letter["message"], letter["requeued_at"], letter["requeued_as"]) == (None, None, None)


async def test_it_is_sent_again_once(api: Api, bm: str) -> None:
    task = await failed(api)
    sent = await api.post(f"/v1/dead/{task}/requeue")
    assert sent.status == 200
    assert (await api.get(f"/v1/tasks/{sent.json['requeued_as']}")).json["state"] in {"queued", "failed"}
    again = await api.post(f"/v1/dead/{task}/requeue")
    assert (again.status, again.code) == (409, "already_requeued")
    assert sent.json["requeued_as"] in again.json["detail"]
    assert (await api.get(f"/v1/dead/{task}")).json == sent.json
    found = (await api.get("/v1/dead?requeued=true")).json["items"]
    assert found[0] == sent.json


async def test_the_same_key_sends_it_once_and_answers_the_same(api: Api, bm: str) -> None:
    task = await failed(api)
    answers = [await api.post(f"/v1/dead/{task}/requeue", headers={"idempotency-key": "k"}) for _ in range(2)]
    assert answers[0].body == answers[1].body
    assert answers[1].headers["idempotency-replayed"] == "true"


async def test_it_is_thrown_away(api: Api, bm: str) -> None:
    task = await failed(api)
    assert (await api.delete(f"/v1/dead/{task}")).status == 204
    assert (await api.delete(f"/v1/dead/{task}")).code == "dead_letter_not_found"
    assert (await api.get(f"/v1/tasks/{task}")).json["state"] == "failed"


async def test_pages_and_filters(api: Api, bm: str) -> None:
    tasks = [await failed(api) for _ in range(3)]
    first = await api.get("/v1/dead?limit=2")
    second = await api.get(f"/v1/dead?limit=2&cursor={first.json['next']}")
    assert [letter["id"] for page in (first, second) for letter in page.json["items"]] == tasks
    assert (await api.get("/v1/dead?kind=message")).json["items"] == []
    assert (await api.get("/v1/dead?kind=ghost")).pointers == ["?kind"]
    assert (await api.get("/v1/dead?requeued=perhaps")).pointers == ["?requeued"]
    other = (await api.get("/v1/tasks?limit=1")).json["next"]
    assert (await api.get(f"/v1/dead?cursor={other}")).code == "invalid_cursor"
    assert (await api.get("/v1/dead?cursor=ZA")).json["items"]  # the beginning
    assert (await api.get("/v1/dead?cursor=ZAAA")).code == "invalid_cursor"


async def test_what_can_be_no_id_is_not_found(api: Api) -> None:
    for name in ("a b", "..", "x" * 100, "%00", "nope"):
        assert (await api.get(f"/v1/dead/{name}")).code == "dead_letter_not_found"
        assert (await api.post(f"/v1/dead/{name}/requeue")).code == "dead_letter_not_found"
        assert (await api.delete(f"/v1/dead/{name}")).code == "dead_letter_not_found"
    assert (await api.post("/v1/vms", VM)).status  # and nobody was hurt
