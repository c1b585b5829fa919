"""The first API answers as it always did, byte for byte."""

import uuid

import pytest
from tests.api.conftest import SCHEDULE, Api, host


@pytest.fixture
async def ai(api: Api) -> None:
    await api.post("/v1/hosts", host(pool="ai", dedicated=True))


async def submit(api: Api, **changes: object) -> str:
    answer = await api.post("/schedule", {**SCHEDULE, **changes})
    assert answer.status == 202, answer.body
    return answer.json["task_id"]


async def test_the_worked_request_of_the_first_system_is_answered_byte_for_byte(api: Api, ai: None) -> None:
    """V 4, 8, 9: `curl-command` asks for 8 CPU and 16384 MiB in the dedicated pool ai."""
    answer = await api.post("/schedule", SCHEDULE)
    task_id = answer.json["task_id"]
    assert answer.status == 202
    assert answer.body == b'{"task_id":"%s","message":"Task submitted, check status later."}' % task_id.encode()
    assert str(uuid.UUID(task_id)) == task_id
    result = await api.get(f"/result/{task_id}")
    assert (result.status, result.body) == (
        200,
        b'{"status":"completed","result":{"name":"bm-001","ip":"10.0.0.1"}}',
    )
    assert result.headers["content-type"] == "application/json"
    assert (await api.get(f"/schedule/{task_id}")).body == result.body


async def test_a_waiting_task_is_processing(api: Api) -> None:
    await api.post("/v1/hosts", host(pool="ai"))
    task_id = await submit(api, requested_cpu=1000, when_unplaceable="wait")
    assert (await api.get(f"/result/{task_id}")).body == b'{"status":"processing"}'


async def test_what_does_not_fit_fails_with_the_old_words_and_a_reason(api: Api, ai: None) -> None:
    task_id = await submit(api, requested_cpu=1000)
    answer = await api.until(f"/result/{task_id}", status="failed")
    assert list(answer.json) == ["status", "error", "reason", "code"]
    assert answer.json["error"] == "No available nodes"
    assert answer.json["reason"]


async def test_an_unknown_pool_is_a_result_not_a_mistake(api: Api) -> None:
    task_id = await submit(api, requested_pool="nobody-knows")
    answer = await api.until(f"/result/{task_id}", status="failed")
    assert answer.json["error"] == "No available nodes"


async def test_a_cancelled_task_says_so(api: Api) -> None:
    task_id = await submit(api, when_unplaceable="wait")
    await api.post(f"/v1/tasks/{task_id}/cancel")
    answer = await api.get(f"/result/{task_id}")
    assert (answer.json["status"], answer.json["error"]) == ("failed", "Cancelled")


async def test_an_unknown_id_is_404_task_id_not_found(api: Api) -> None:
    """V 22 [bug]: an unknown id was answered with 200."""
    for folder in ("result", "schedule"):
        for task_id in (str(uuid.uuid4()), "nope", "a b", "..", "%00", "x" * 500, "%ED%A0%80"):
            answer = await api.get(f"/{folder}/{task_id}")
            assert answer.status == 404
            assert answer.json["detail"] == "Task ID not found"
            assert answer.headers["content-type"] == "application/problem+json"


async def test_the_task_id_is_returned_and_that_of_the_client_is_kept(api: Api, ai: None) -> None:
    """G 18 [bug]: the server overwrote the client's task_id and never returned any."""
    mine = "order-17.a:b_c"
    answer = await api.post("/schedule", {**SCHEDULE, "task_id": mine})
    assert (answer.status, answer.json["task_id"]) == (202, mine)
    assert (await api.get(f"/result/{mine}")).json["status"] == "completed"
    assert (await api.get(f"/v1/tasks/{mine}")).json["task_id"] == mine


async def test_the_same_request_with_the_same_task_id_is_the_same_task(api: Api, ai: None) -> None:
    mine = str(uuid.uuid4())
    first = await api.post("/schedule", {**SCHEDULE, "task_id": mine})
    again = await api.post("/schedule", {**SCHEDULE, "task_id": mine})
    assert (again.status, again.body) == (202, first.body)
    assert (await api.get("/v1/hosts/bm-001")).json["instances"] == 1


async def test_another_request_with_the_same_task_id_is_refused(api: Api, ai: None) -> None:
    await submit(api, task_id="mine")
    answer = await api.post("/schedule", {**SCHEDULE, "requested_cpu": 9, "task_id": "mine"})
    assert (answer.status, answer.code) == (409, "already_exists")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (True, "required"),
        (False, "allowed"),
        ("required", "required"),
        ("allowed", "allowed"),
        ("forbidden", "forbidden"),
    ],
)
async def test_dedicated_is_a_boolean_or_a_word(api: Api, said: object, meant: str) -> None:
    task_id = await submit(api, dedicated=said, when_unplaceable="wait")
    assert (await api.get(f"/v1/tasks/{task_id}")).json["dedicated"] == meant


async def test_cores_become_millicores_and_the_empty_pool_is_a_pool(api: Api) -> None:
    task_id = await submit(api, requested_pool="", requested_cpu=2, requested_disk=7, requested_gpu=1, name="web")
    task = (await api.get(f"/v1/tasks/{task_id}")).json
    assert task["resources"] == {"cpu": 2000, "memory": 16384, "disk": 7, "gpu": 1, "vms": 1}
    assert (task["pool"], task["vm"]) == ("", "web")


@pytest.mark.parametrize("field", list(SCHEDULE))
async def test_the_four_fields_are_required(api: Api, field: str) -> None:
    answer = await api.post("/schedule", {name: value for name, value in SCHEDULE.items() if name != field})
    assert (answer.status, answer.pointers) == (422, [f"/{field}"])


async def test_an_unknown_strategy_is_refused_with_the_known_ones(api: Api) -> None:
    answer = await api.post("/schedule", {**SCHEDULE, "strategy": "magic"})
    assert (answer.status, answer.code) == (422, "invalid_strategy")
    assert "least_loaded" in answer.json["remedy"]


async def test_labels_and_priority_and_deadline_reach_the_task(api: Api) -> None:
    task_id = await submit(api, labels={"gpu": "a100"}, priority=7, deadline_s=60, when_unplaceable="wait")
    task = (await api.get(f"/v1/tasks/{task_id}")).json
    assert (task["labels"], task["priority"]) == ({"gpu": "a100"}, 7)
    assert task["deadline_at"] > task["accepted_at"]
