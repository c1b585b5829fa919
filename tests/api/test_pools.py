"""Pools: settings that may be forgotten, hosts that go on naming them."""

from tests.api.conftest import Api, host


async def test_a_pool_that_hosts_name_is_there_without_being_said(api: Api) -> None:
    await api.post("/v1/hosts", host(pool="ai"))
    pool = (await api.get("/v1/pools/ai")).json
    assert pool == {
        "name": "ai", "explicit": False, "overcommit": {}, "strategy": "", "effective_strategy": "least_loaded",
        "accepts_work": True, "hosts": 1, "version": pool["version"], "created_at": None, "updated_at": None,
    }  # fmt: skip


async def test_the_empty_pool_is_spelled_with_a_dash(api: Api) -> None:
    said = await api.put("/v1/pools/-", {"strategy": "best_fit", "accepts_work": False})
    assert (said.status, said.json["name"], said.json["accepts_work"]) == (200, "", False)
    assert (await api.get("/v1/pools/-")).json["effective_strategy"] == "best_fit"
    assert (await api.put("/v1/pools/-", {"name": ""})).status == 200
    assert (await api.put("/v1/pools/-", {"name": "x"})).pointers == ["/name"]


async def test_forgetting_is_once_and_needs_something_to_forget(api: Api) -> None:
    await api.put("/v1/pools/ai", {"overcommit": {"cpu": 2}})
    assert (await api.delete("/v1/pools/ai")).status == 204
    assert (await api.delete("/v1/pools/ai")).status == 404
    assert (await api.get("/v1/pools/ai")).code == "no_such_pool"


async def test_an_unknown_strategy_is_refused(api: Api) -> None:
    answer = await api.put("/v1/pools/ai", {"strategy": "magic"})
    assert (answer.status, answer.code) == (422, "invalid_strategy")


async def test_what_can_be_no_name_is_no_pool(api: Api) -> None:
    assert (await api.get("/v1/pools/A_B")).status == 404
    assert (await api.put("/v1/pools/A_B", {})).pointers == ["/name"]


async def test_pages(api: Api) -> None:
    for name in ("-", "a", "b"):
        await api.put(f"/v1/pools/{name}", {})
    first = await api.get("/v1/pools?limit=1")
    second = await api.get(f"/v1/pools?limit=1&cursor={first.json['next']}")
    third = await api.get(f"/v1/pools?cursor={second.json['next']}")
    assert [one["name"] for page in (first, second, third) for one in page.json["items"]] == ["", "a", "b"]
    assert third.json["next"] is None
