"""Cursors are opaque, and refused when they are not ours."""

import base64

from tests.api.conftest import VM, Api, host

LISTS = ["/v1/hosts", "/v1/pools", "/v1/vms", "/v1/tasks", "/v1/strategies"]


async def test_what_is_no_cursor_is_refused(api: Api) -> None:
    for path in LISTS:
        for cursor in ("x", "", "AAAA", "====", "a b", "ü", "%00", "x" * 201, "aGJtLTAwMQ==", "../..", "None"):
            answer = await api.get(f"{path}?cursor={cursor}")
            assert answer.status == 422
            assert answer.pointers[0] in ("?cursor", "?")


async def test_a_cursor_of_one_list_is_none_of_another(api: Api) -> None:
    await api.post("/v1/hosts/batch", {"items": [host("a"), host("b")]})
    await api.post("/v1/vms/batch", {"items": [VM, VM]})
    cursors = {path: (await api.get(f"{path}?limit=1")).json["next"] for path in LISTS[:1] + LISTS[2:]}
    for path in LISTS:
        for source, cursor in cursors.items():
            answer = await api.get(f"{path}?cursor={cursor}")
            assert answer.status == (200 if path == source else 422), (path, source)


async def test_a_cursor_with_a_wrong_key_inside_is_refused(api: Api) -> None:
    forged = base64.urlsafe_b64encode(b"h../../x").decode().rstrip("=")
    assert (await api.get(f"/v1/hosts?cursor={forged}")).code == "invalid_cursor"


async def test_a_limit_is_1_to_1000(api: Api) -> None:
    for path in LISTS:
        for limit in ("0", "1001", "-1", "1.5", "x", "", "1e2", "99999999999999999999999", "٣"):
            answer = await api.get(f"{path}?limit={limit}")
            assert answer.status == 422
            assert answer.pointers[0] in ("?limit", "?")
        assert (await api.get(f"{path}?limit=1000")).status == 200


async def test_doubled_parameters_are_refused(api: Api) -> None:
    assert (await api.get("/v1/hosts?limit=1&limit=2")).pointers == ["?limit"]
    assert (await api.get("/v1/tasks?state=queued&state=failed")).status == 200
    assert (await api.get("/v1/hosts?" + "&".join(["label=a=b"] * 300))).status == 422
