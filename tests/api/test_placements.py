"""The dry run says what placing does, and writes nothing."""

from tests.api.conftest import VM, Api, host


async def test_the_winner_is_the_host_that_placing_takes(api: Api, bm: str) -> None:
    await api.post("/v1/hosts", host("bm-002"))
    before = (await api.get("/v1/events")).json["newest"]
    preview = (await api.post("/v1/placements/explain", VM)).json
    assert preview["placeable"] is True
    assert (preview["hosts_possible"], len(preview["runners_up"])) == (2, 1)
    assert (await api.get("/v1/events")).json["newest"] == before
    assert (await api.post("/v1/vms", VM)).json["host"] == preview["winner"]["host"]


async def test_a_refusal_is_explained(api: Api, bm: str) -> None:
    preview = (await api.post("/v1/placements/explain", {"resources": {"memory": 300_000}})).json
    assert (preview["placeable"], preview["winner"]) == (False, None)
    assert preview["explanation"]["nearest"]["short"] == {"memory": 300_000 - 262_144}
    assert preview["explanation"]["filters"][0].keys() == {"filter", "hosts", "alone"}


async def test_in_a_list_each_sees_the_room_that_the_former_took(api: Api, bm: str) -> None:
    big = {"resources": {"cpu": 40_000}}
    answer = (await api.post("/v1/placements/explain", {"items": [big, big, VM]})).json
    assert [one["placeable"] for one in answer["items"]] == [True, False, True]
    assert (answer["placeable"], answer["refused"]) == (2, 1)


async def test_runners_up_are_as_many_as_asked(api: Api) -> None:
    await api.post("/v1/hosts/batch", {"items": [host(f"bm-{n}") for n in range(6)]})
    for asked, got in (("", 3), ("?runners_up=0", 0), ("?runners_up=4", 4), ("?runners_up=20", 5)):
        assert len((await api.post(f"/v1/placements/explain{asked}", VM)).json["runners_up"]) == got
    assert (await api.post("/v1/placements/explain?runners_up=21", VM)).pointers == ["?runners_up"]


async def test_tenants_see_no_host(api: Api, bm: str) -> None:
    for wish in (VM, {"resources": {"cpu": 10**6}}):
        answer = await api.post("/v1/placements/explain?view=tenant", wish)
        assert bm.encode() not in answer.body


async def test_mistakes_are_named_in_one_and_in_lists(api: Api) -> None:
    assert (await api.post("/v1/placements/explain", {"resources": {}})).pointers == ["/resources"]
    assert (await api.post("/v1/placements/explain", {"items": [VM, {}]})).pointers == ["/items/1/resources"]
    assert (await api.post("/v1/placements/explain", [])).pointers == [""]
    assert (await api.post("/v1/placements/explain", {**VM, "strategy": "magic"})).code == "invalid_strategy"
