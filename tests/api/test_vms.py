"""VMs: one, many, all or nothing; the quick writing of answers; deleting."""

import msgspec
import pytest
from tests.api.conftest import VM, Api, host

from virtflow.api.ids import MANY, id_texts
from virtflow.api.vms import VmOut, VmWriter, vm_detail
from virtflow.model.instance import Instance, Status
from virtflow.model.names import id_to_text
from virtflow.model.shape import Dedicated, shape
from virtflow.model.views import VmView


async def test_a_vm_is_accepted_and_placed(api: Api, bm: str) -> None:
    answer = await api.post("/v1/vms", {**VM, "name": "web"})
    assert (answer.status, answer.headers["location"], answer.headers["etag"]) == (202, "/v1/vms/web", '"1"')
    vm = answer.json
    assert (vm["host"], vm["address"], vm["pool"], vm["status"]) == (bm, "10.0.0.1", "default", "pending")
    assert vm["conditions"] == [{"type": "scheduled", "state": True}]
    read = (await api.get("/v1/vms/web")).json
    assert read.pop("explanation") is None
    assert read == vm
    assert (await api.get(f"/v1/vms/{vm['id']}")).json["name"] == "web"
    assert (await api.get(f"/v1/tasks/{vm['task_id']}")).json["state"] == "completed"


async def test_a_vm_that_waits_says_why_and_tenants_see_no_host(api: Api, bm: str) -> None:
    made = (await api.post("/v1/vms", {"name": "big", "resources": {"memory": 400_000}})).json
    assert (made["host"], made["placed_at"]) == (None, None)
    vm = (await api.get("/v1/vms/big")).json
    assert vm["explanation"]["nearest"]["host"] == bm
    assert vm["explanation"]["nearest"]["short"] == {"memory": 400_000 - 262_144}
    hidden = await api.get("/v1/vms/big?view=tenant")
    assert hidden.json["explanation"]["nearest"]["host"] is None
    assert bm.encode() not in hidden.body


async def test_an_unknown_pool_is_refused_with_the_known_ones(api: Api, bm: str) -> None:
    answer = await api.post("/v1/vms", {**VM, "pool": "nope"})
    assert (answer.status, answer.code, answer.pointers) == (422, "no_such_pool", ["/pool"])
    assert "default" in answer.json["remedy"]
    batch = await api.post("/v1/vms/batch", {"items": [VM, VM, {**VM, "pool": "nope"}]})
    assert (batch.status, batch.code, batch.pointers) == (422, "no_such_pool", ["/items/2/pool"])
    single = await api.post("/v1/vms/batch", {"items": [{**VM, "pool": "nope"}]})
    assert single.pointers == ["/items/0/pool"]


async def test_an_unknown_strategy_is_refused_with_the_known_ones(api: Api, bm: str) -> None:
    answer = await api.post("/v1/vms", {**VM, "strategy": "magic"})
    assert (answer.status, answer.code, answer.pointers) == (422, "invalid_strategy", ["/strategy"])
    assert "least_loaded" in answer.json["remedy"]


async def test_weights_that_the_strategy_does_not_have_are_refused(api: Api, bm: str) -> None:
    assert (await api.post("/v1/vms", {**VM, "strategy": "hybrid", "weights": {"cpu": 0.7}})).status == 202
    answer = await api.post("/v1/vms", {**VM, "strategy": "hybrid", "weights": {"colour": 1}})
    assert (answer.status, answer.code) == (422, "invalid_weights")


async def test_a_taken_name_is_a_conflict(api: Api, bm: str) -> None:
    await api.post("/v1/vms", {**VM, "name": "web"})
    answer = await api.post("/v1/vms", {**VM, "name": "web"})
    assert (answer.status, answer.code) == (409, "already_exists")


async def test_a_batch_is_answered_in_its_order(api: Api, bm: str) -> None:
    items = [{**VM, "name": f"vm-{n}"} for n in range(40)]
    answer = await api.post("/v1/vms/batch", {"items": items})
    assert answer.status == 202
    assert [vm["name"] for vm in answer.json["items"]] == [vm["name"] for vm in items]
    assert all(vm["host"] == bm for vm in answer.json["items"])


async def test_in_mode_each_what_does_not_fit_waits_alone(api: Api, bm: str) -> None:
    items = [VM, {"resources": {"cpu": 10**6}}, VM]
    answer = await api.post("/v1/vms/batch", {"items": items, "mode": "each"})
    assert [vm["host"] for vm in answer.json["items"]] == [bm, None, bm]


async def test_all_or_nothing_places_none_where_one_does_not_fit(api: Api, bm: str) -> None:
    items = [VM, {"resources": {"cpu": 10**6}}]
    answer = await api.post("/v1/vms/batch", {"items": items, "mode": "all_or_nothing"})
    assert [vm["host"] for vm in answer.json["items"]] == [None, None]


async def test_one_bad_item_refuses_the_whole_batch_and_is_named(api: Api, bm: str) -> None:
    items = [{**VM, "name": f"vm-{n}"} for n in range(20)]
    items[17] = {"resources": {"cpu": -1}, "nmae": "x"}
    answer = await api.post("/v1/vms/batch", {"items": items})
    assert (answer.status, answer.pointers) == (422, ["/items/17/resources/cpu", "/items/17/nmae"])
    assert "did you mean name?" in answer.json["errors"][1]["remedy"]
    assert (await api.get("/v1/vms")).json["items"] == []


async def test_a_name_twice_in_a_batch_is_named_by_its_place(api: Api, bm: str) -> None:
    answer = await api.post("/v1/vms/batch", {"items": [{**VM, "name": "a"}, VM, {**VM, "name": "a"}]})
    assert (answer.status, answer.pointers) == (422, ["/items/2/name"])


async def test_deleting_again_is_fine_and_what_never_was_is_not_found(api: Api, bm: str) -> None:
    await api.post("/v1/vms", {**VM, "name": "web"})
    assert (await api.delete("/v1/vms/web")).status == 204
    assert (await api.delete("/v1/vms/web")).status == 204
    assert (await api.delete("/v1/vms/never")).code == "vm_not_found"
    assert (await api.get(f"/v1/hosts/{bm}")).json["used"].get("cpu", 0) == 0


async def test_many_are_deleted_by_name_or_id(api: Api, bm: str) -> None:
    made = (await api.post("/v1/vms/batch", {"items": [{**VM, "name": "a"}, VM]})).json["items"]
    answer = await api.post("/v1/vms/batch-delete", {"names": ["a", made[1]["id"], "gone"]})
    assert (answer.status, answer.json) == (200, {"deleted": 2, "absent": ["gone"]})


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["a", "b", "c"]),
        ("pool=ai", ["b"]),
        ("host=bm-001", ["a"]),
        ("placed=true", ["a", "b"]),
        ("placed=false", ["c"]),
        ("status=running", []),
        ("status=pending&placed=true&pool=default", ["a"]),
    ],
)
async def test_filters(api: Api, bm: str, query: str, names: list[str]) -> None:
    await api.post("/v1/hosts", host("bm-2", pool="ai"))
    await api.post("/v1/vms", {**VM, "name": "a"})
    await api.post("/v1/vms", {**VM, "name": "b", "pool": "ai"})
    await api.post("/v1/vms", {"resources": {"cpu": 10**6}, "name": "c"})
    assert [vm["name"] for vm in (await api.get(f"/v1/vms?{query}")).json["items"]] == names


async def test_pages_go_on_where_they_ended(api: Api, bm: str) -> None:
    await api.post("/v1/vms/batch", {"items": [VM] * 5})
    seen, cursor = [], ""
    while cursor is not None:
        page = await api.get(f"/v1/vms?limit=2{f'&cursor={cursor}' if cursor else ''}")
        seen += [one["id"] for one in page.json["items"]]
        cursor = page.json["next"]
    assert len(seen) == len(set(seen)) == 5


def views() -> list[VmView]:
    placed = Instance(
        id=bytes(range(16)), shape_id=1, host_id=1, host="bm-1", address="10.0.0.1", created_ms=1_763_500_000_123,
        placed_ms=1_763_500_000_456, status=Status.RUNNING, generation=3, version=9,
    )  # fmt: skip
    waiting = Instance(id=b"\x00order-1", shape_id=2, given_name="web", created_ms=1_763_500_000_999)
    plain = shape({"cpu": 1000})
    rich = shape(
        {"cpu": 1, "licences": 2}, pool="", dedicated=Dedicated.FORBIDDEN, labels={'a"b': "ü\\"}, zone='"z"',
        strategy="hybrid", weights={"cpu": 0.1},
    )  # fmt: skip
    return [
        VmView(instance=placed, shape=plain, task_id=placed.id),
        VmView(instance=waiting, shape=rich, task_id=bytes(16)),
        VmView(instance=placed, shape=rich, task_id=placed.id),
    ]


def test_what_is_written_quickly_is_what_the_record_says() -> None:
    writer = VmWriter()
    full = [msgspec.to_builtins(vm_detail(view, audience="operator")) for view in views()]
    expected = [{name: value for name, value in one.items() if name != "explanation"} for one in full]
    assert msgspec.json.decode(writer.many(views()))["items"] == expected
    assert [msgspec.json.decode(writer.one(view)) for view in views()] == expected
    assert [list(one) for one in expected] == [list(VmOut.__struct_fields__)] * 3
    assert writer.many([]) == b'{"items":[]}'


@pytest.mark.parametrize("count", [0, 1, MANY, 3 * MANY])
def test_many_ids_are_written_like_one(count: int) -> None:
    keys = [bytes((number * 7 + place * 31) % 256 for place in range(16)) for number in range(count)]
    assert id_texts(keys) == [id_to_text(key) for key in keys]
    mixed = [*keys, b"\x00mine", b"\x00" + b"x" * 31]
    assert id_texts(mixed) == [id_to_text(key) for key in mixed]
