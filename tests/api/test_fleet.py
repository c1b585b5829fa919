"""The fleet in numbers, the strategies, the metrics."""

from tests.api.conftest import VM, Api

from virtflow.control.metrics import METRICS
from virtflow.engine import strategies


async def test_the_fleet_is_summed_up(api: Api, bm: str) -> None:
    await api.post("/v1/vms", VM)
    fleet = (await api.get("/v1/fleet")).json
    assert (fleet["instances"], fleet["instances_placed"], fleet["default_strategy"]) == (1, 1, "least_loaded")
    assert fleet["tasks"]["completed"] == 1
    assert fleet["pools"][0]["used"]["cpu"] == 1000
    assert fleet["inventory"] == []


async def test_info_names_the_log(api: Api) -> None:
    info = (await api.get("/v1/info")).json
    assert (info["version"], info["database"], info["strategy"]) == ("0.1", "sqlite", "least_loaded")
    assert info["history_id"] == (await api.get("/v1/events")).json["history_id"]


async def test_strategies_say_what_they_are_for(api: Api) -> None:
    answer = (await api.get("/v1/strategies")).json
    assert [one["name"] for one in answer["items"]] == list(strategies.names())
    assert [one["name"] for one in answer["items"] if one["default"]] == ["least_loaded"]
    first = await api.get("/v1/strategies?limit=1")
    rest = await api.get(f"/v1/strategies?cursor={first.json['next']}")
    assert first.json["items"] + rest.json["items"] == answer["items"]


async def test_a_process_alone_lists_itself_with_the_offices_it_holds(api: Api) -> None:
    answer = (await api.get("/v1/processes")).json
    [one] = answer["items"]
    assert answer["next"] is None
    assert (one["state"], one["roles"]) == ("here", ["api", "scheduler", "relay"])
    assert {office["office"] for office in one["offices"]} <= {"scheduler", "relay"}
    assert one["offices"][0]["term"] >= 1
    strategies_cursor = (await api.get("/v1/strategies?limit=1")).json["next"]
    assert (await api.get(f"/v1/processes?cursor={strategies_cursor}")).status == 422
    text = (await api.get("/metrics")).body
    for line in (
        b'virtflow_leader{office="scheduler"} 1.0',
        b"virtflow_fence 1.0",
        b'virtflow_processes{role="api"} 1.0',
    ):
        assert line in text


async def test_metrics_are_as_prometheus_reads_them(api: Api) -> None:
    await api.get("/healthz")
    metrics = await api.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b'virtflow_requests_total{route="/healthz",status="200"} 1.0' in metrics.body
    assert "virtflow_requests_total" in METRICS


async def test_metrics_know_templates_not_names(api: Api) -> None:
    for name in ("a", "b"):
        await api.get(f"/v1/hosts/{name}")
        await api.get(f"/nope/{name}")
    body = (await api.get("/metrics")).body
    assert b'route="/v1/hosts/{name}",status="404"} 2.0' in body
    assert b'route="unmatched",status="404"} 2.0' in body
