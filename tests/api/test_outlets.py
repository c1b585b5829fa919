"""Outlets: who is told, how far, and what is wrong with the others."""

from tests.api.conftest import Api

from virtflow.main import Service
from virtflow.model.outlet import Outlet

NOW_MS = 1_760_000_000_123


async def add(service: Service, *outlets: Outlet) -> None:
    async with service.store.transaction() as tx:
        await tx.add_outlets(outlets)


def outlet(name: str, *, kind: str = "webhook", cursor: int = 0, **more: object) -> Outlet:
    return Outlet(name=name, kind=kind, cursor=cursor, created_ms=NOW_MS, updated_ms=NOW_MS, **more)  # type: ignore[arg-type]


async def test_an_outlet_says_how_far_it_was_told(service: Service, api: Api, bm: str) -> None:
    newest = (await api.get("/v1/events")).json["newest"]
    await add(service, outlet("hook", cursor=newest - 1))
    found = (await api.get("/v1/outlets/hook")).json
    assert found.pop("behind_s") >= 0
    assert found == {
        "name": "hook", "kind": "webhook", "state": "ok", "cursor": newest - 1, "behind": 1, "error": "",
        "failing_since": None, "created_at": "2025-10-09T08:53:20.123Z", "updated_at": "2025-10-09T08:53:20.123Z",
    }  # fmt: skip


async def test_what_is_wrong_with_one_is_said_with_since_when(service: Service, api: Api) -> None:
    await add(service, outlet("away"), outlet("off", enabled=False))
    async with service.store.transaction() as tx:
        await tx.mark_outlet("away", error="nobody listens there", at_ms=NOW_MS + 1000)
    listed = {one["name"]: one for one in (await api.get("/v1/outlets")).json["items"]}
    away, off = listed["away"], listed["off"]
    assert (away["state"], away["error"]) == ("failing", "nobody listens there")
    assert away["failing_since"] == "2025-10-09T08:53:21.123Z"
    assert (off["state"], off["behind"]) == ("disabled", 0)


async def test_pages(service: Service, api: Api) -> None:
    await add(service, outlet("a"), outlet("b"), outlet("c"))
    first = await api.get("/v1/outlets?limit=2")
    second = await api.get(f"/v1/outlets?limit=3&cursor={first.json['next']}")
    assert [one["name"] for one in first.json["items"]] == ["a", "b"]
    # the callbacks of requests may have theirs by now
    assert [one["name"] for one in second.json["items"]] in (["c"], ["c", "callback"])
    assert second.json["next"] is None
    assert (await api.get("/v1/outlets?cursor=x")).code == "invalid_cursor"


async def test_one_that_is_not_there_is_not_found(api: Api) -> None:
    for name in ("nats", "N%00", "a%20b", "%ff", "x" * 300):
        answer = await api.get(f"/v1/outlets/{name}")
        assert (answer.status, answer.code) == (404, "outlet_not_found"), name
