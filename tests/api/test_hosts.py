"""Hosts: what is said, what is answered, and whose version it was."""

import pytest
from tests.api.conftest import Api, host


async def test_a_host_is_registered_read_and_deleted(api: Api) -> None:
    said = host(
        "bm-1", pool="ai", labels={"gpu": "a100"}, zone="Zürich 1", rack="r7", model="R740", dedicated=True,
        overcommit={"cpu": 2}, reserved={"cpu": 1000},
    )  # fmt: skip
    made = await api.post("/v1/hosts", said)
    assert made.status == 201
    assert (made.headers["location"], made.headers["etag"]) == ("/v1/hosts/bm-1", '"1"')
    assert made.json.items() >= said.items()
    assert made.json["allocatable"]["cpu"] == 127_000
    assert (made.json["cordoned"], made.json["schedulable"], made.json["source"]) == (False, True, "api")
    read = await api.get("/v1/hosts/bm-1")
    assert (read.json, read.headers["etag"]) == (made.json, '"1"')
    assert (await api.delete("/v1/hosts/bm-1")).status == 204
    assert (await api.get("/v1/hosts/bm-1")).code == "host_not_found"


async def test_the_same_name_again_is_a_conflict(api: Api, bm: str) -> None:
    answer = await api.post("/v1/hosts", host(bm))
    assert (answer.status, answer.code) == (409, "already_exists")


async def test_many_hosts_are_registered_all_or_none(api: Api, bm: str) -> None:
    made = await api.post("/v1/hosts/batch", {"items": [host("a"), host("b")]})
    assert (made.status, [one["name"] for one in made.json["items"]]) == (201, ["a", "b"])
    refused = await api.post("/v1/hosts/batch", {"items": [host("c"), host(bm)]})
    assert refused.status == 409
    assert (await api.get("/v1/hosts/c")).status == 404


async def test_a_name_twice_in_a_batch_is_named_by_its_place(api: Api) -> None:
    answer = await api.post("/v1/hosts/batch", {"items": [host("a"), host("b"), host("a")]})
    assert (answer.status, answer.pointers) == (422, ["/items/2/name"])


async def test_max_vms_is_capacity_vms(api: Api) -> None:
    made = await api.post("/v1/hosts", host("a", max_vms=7))
    assert (made.json["max_vms"], made.json["capacity"]["vms"], made.json["total"]["vms"]) == (7, 7, 7)
    assert (await api.post("/v1/hosts", host("b"))).json["max_vms"] is None
    answer = await api.post("/v1/hosts", {"name": "c", "capacity": {"vms": 3}, "max_vms": 4})
    assert (answer.status, answer.pointers) == (422, ["/max_vms"])


async def test_a_ratio_for_a_resource_that_is_not_there_is_refused(api: Api) -> None:
    """A slip such as `memroy` would otherwise be obeyed in silence."""
    answer = await api.post("/v1/hosts", host("a", overcommit={"memroy": 2}, reserved={"cpuu": 1}))
    assert (answer.status, answer.pointers) == (422, ["/overcommit/memroy", "/reserved/cpuu"])


async def test_put_creates_and_replaces_whole(api: Api) -> None:
    made = await api.put("/v1/hosts/bm-1", {"capacity": {"cpu": 1000}, "zone": "z"})
    assert (made.status, made.headers["location"]) == (201, "/v1/hosts/bm-1")
    replaced = await api.put("/v1/hosts/bm-1", {"capacity": {"cpu": 2000}})
    assert (replaced.status, replaced.json["zone"], replaced.json["version"]) == (200, "", 2)


async def test_put_says_where_the_name_is_wrong(api: Api) -> None:
    assert (await api.put("/v1/hosts/BM_1", {})).pointers == ["/name"]
    assert (await api.put("/v1/hosts/bm-1", {"name": "bm-2"})).pointers == ["/name"]


async def test_patch_changes_what_it_names_and_null_takes_away(api: Api) -> None:
    await api.post("/v1/hosts", host("a", labels={"a": "1", "b": "2"}, zone="z", max_vms=3))
    patch = {"labels": {"a": None, "c": "3"}, "zone": None, "capacity": {"gpu": 4, "disk": None}}
    answer = await api.patch("/v1/hosts/a", patch, headers={"content-type": "application/merge-patch+json"})
    assert answer.status == 200
    assert (answer.json["labels"], answer.json["zone"]) == ({"b": "2", "c": "3"}, "")
    assert answer.json["capacity"] == {"cpu": 64_000, "memory": 262_144, "gpu": 4, "vms": 3}
    assert (await api.patch("/v1/hosts/a", {"max_vms": 9})).json["capacity"]["vms"] == 9
    assert (await api.patch("/v1/hosts/a", {"max_vms": None})).json["max_vms"] is None
    assert (await api.patch("/v1/hosts/a", {"capacity": None, "max_vms": 1})).json["capacity"] == {"vms": 1}


async def test_a_patch_whose_result_is_no_host_is_refused(api: Api, bm: str) -> None:
    assert (await api.patch(f"/v1/hosts/{bm}", {"labels": {f"k{n}": "v" for n in range(60)}})).status == 200
    answer = await api.patch(f"/v1/hosts/{bm}", {"labels": {f"l{n}": "v" for n in range(60)}})
    assert (answer.status, answer.pointers) == (422, ["/labels"])
    assert (await api.patch(f"/v1/hosts/{bm}", {"name": "other"})).pointers == ["/name"]
    assert (await api.patch(f"/v1/hosts/{bm}", {"capacity": {"vms": 2}, "max_vms": 3})).pointers == ["/max_vms"]


async def test_a_host_in_use_is_not_deleted(api: Api, bm: str) -> None:
    await api.post("/v1/vms", {"resources": {"cpu": 1}})
    assert (await api.delete(f"/v1/hosts/{bm}")).code == "host_in_use"


async def test_a_cordon_is_a_field_of_its_own(api: Api, bm: str) -> None:
    cordoned = await api.post(f"/v1/hosts/{bm}/cordon")
    assert (cordoned.json["cordoned"], cordoned.json["schedulable"]) == (True, False)
    assert (await api.put(f"/v1/hosts/{bm}", {"capacity": {"cpu": 1000}})).json["cordoned"] is True
    assert (await api.post(f"/v1/hosts/{bm}/uncordon", {})).json["cordoned"] is False
    assert (await api.post("/v1/hosts/nope/cordon")).code == "host_not_found"
    assert (await api.post(f"/v1/hosts/{bm}/cordon", {"x": 1})).code == "unexpected_body"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["a", "b", "c"]),
        ("pool=ai", ["b"]),
        ("pool=", ["c"]),
        ("zone=z", ["a"]),
        ("label=k=v", ["a", "b"]),
        ("label=k=v&label=l=", ["b"]),
        ("cordoned=true", ["c"]),
        ("cordoned=false&missing=false&source=api", ["a", "b"]),
        ("source=http", []),
    ],
)
async def test_filters(api: Api, query: str, names: list[str]) -> None:
    await api.post("/v1/hosts", {"name": "a", "zone": "z", "labels": {"k": "v"}})
    await api.post("/v1/hosts", {"name": "b", "pool": "ai", "labels": {"k": "v", "l": ""}})
    await api.post("/v1/hosts", {"name": "c", "pool": ""})
    await api.post("/v1/hosts/c/cordon")
    answer = await api.get(f"/v1/hosts?{query}")
    assert [one["name"] for one in answer.json["items"]] == names
    assert answer.json["inventory"] == []


async def test_a_label_filter_is_key_and_value(api: Api) -> None:
    for label in ("x", "=v", "k=v&label=k=w", "k%00=v", "k=%07"):
        answer = await api.get(f"/v1/hosts?label={label}")
        assert (answer.status, answer.pointers[0].removesuffix("/0")) == (422, "?label")


async def test_pages_go_on_where_they_ended(api: Api) -> None:
    await api.post("/v1/hosts/batch", {"items": [host(f"bm-{n}") for n in range(5)]})
    seen, cursor = [], ""
    while cursor is not None:
        page = await api.get(f"/v1/hosts?limit=2{f'&cursor={cursor}' if cursor else ''}")
        seen += [one["name"] for one in page.json["items"]]
        cursor = page.json["next"]
    assert seen == [f"bm-{n}" for n in range(5)]


async def test_what_can_be_no_name_is_not_found(api: Api) -> None:
    for name in ("BM", "a_b", "a/b", "%2e%2e", "x" * 64, "ü", "a\x00b"):
        for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/cordon")):
            assert (await api(method, f"/v1/hosts/{name}{tail}")).status == 404
        assert (await api.patch(f"/v1/hosts/{name}", {})).status == 404
