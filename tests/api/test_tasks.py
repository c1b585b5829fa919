"""Tasks: the full record, and taking it back."""

from tests.api.conftest import VM, Api


async def test_a_task_tells_its_whole_story(api: Api, bm: str) -> None:
    vm = (await api.post("/v1/vms", {**VM, "name": "web", "priority": 3, "deadline_s": 60})).json
    answer = await api.get(f"/v1/tasks/{vm['task_id']}")
    task = answer.json
    assert (task["vm"], task["vm_id"], task["state"], task["host"]) == ("web", vm["id"], "completed", bm)
    assert (task["priority"], task["when_unplaceable"], task["attempts"]) == (3, "wait", 0)
    assert [step["state"] for step in task["history"]] == ["queued", "processing", "completed"]
    assert task["duration_ms"] >= 0
    assert answer.headers["etag"] == f'"{task["version"]}"'


async def test_one_that_waits_is_explained_now(api: Api, bm: str) -> None:
    vm = (await api.post("/v1/vms", {"resources": {"cpu": 10**6}})).json
    task = (await api.get(f"/v1/tasks/{vm['task_id']}")).json
    assert (task["state"], task["ended_at"], task["duration_ms"]) == ("queued", None, None)
    assert task["explanation"]["nearest"]["host"] == bm
    hidden = await api.get(f"/v1/tasks/{vm['task_id']}?view=tenant")
    assert hidden.json["explanation"]["nearest"]["host"] is None


async def test_cancelling_twice_is_fine_and_what_is_over_stays_so(api: Api, bm: str) -> None:
    waiting = (await api.post("/v1/vms", {"resources": {"cpu": 10**6}})).json["task_id"]
    for _ in range(2):
        answer = await api.post(f"/v1/tasks/{waiting}/cancel")
        assert (answer.status, answer.json["state"], answer.json["code"]) == (200, "cancelled", "cancelled")
    done = (await api.post("/v1/vms", VM)).json["task_id"]
    answer = await api.post(f"/v1/tasks/{done}/cancel")
    assert (answer.status, answer.code) == (409, "illegal_transition")


async def test_filters_by_states_and_pool(api: Api, bm: str) -> None:
    await api.post("/v1/vms", VM)
    waiting = (await api.post("/v1/vms", {"resources": {"cpu": 10**6}})).json["task_id"]
    assert len((await api.get("/v1/tasks")).json["items"]) == 2
    found = await api.get("/v1/tasks?state=queued&state=processing&pool=default")
    assert [task["task_id"] for task in found.json["items"]] == [waiting]
    assert (await api.get("/v1/tasks?pool=")).json["items"] == []
    assert (await api.get("/v1/tasks?state=done")).pointers == ["?state/0"]


async def test_what_can_be_no_id_is_not_found(api: Api) -> None:
    for name in ("a b", "..", "x" * 100, "%00", "nope"):
        assert (await api.get(f"/v1/tasks/{name}")).code == "task_not_found"
        assert (await api.post(f"/v1/tasks/{name}/cancel")).code == "task_not_found"


async def test_pages(api: Api, bm: str) -> None:
    await api.post("/v1/vms/batch", {"items": [VM] * 3})
    first = await api.get("/v1/tasks?limit=2")
    second = await api.get(f"/v1/tasks?limit=2&cursor={first.json['next']}")
    assert len({task["task_id"] for page in (first, second) for task in page.json["items"]}) == 3
