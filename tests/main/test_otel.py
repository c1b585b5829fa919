"""Traces of real processes, taken by a receiver that speaks OTLP."""

import asyncio
import os
import re
import sys
from pathlib import Path

import httpx
import pytest
from tests.control.conftest import config

from virtflow.main import build
from virtflow.main.otel import OtelTracer
from virtflow.model.errors import InvalidSetting
from virtflow.testing.cluster import cluster, wait_until
from virtflow.testing.otlp import Receiver, drawn, receiver
from virtflow.testing.postgres import PostgresServer
from virtflow.testing.witness import register_hosts

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"


def order(url: str, **headers: str) -> httpx.Response:
    return httpx.post(f"{url}/v1/vms", json={"resources": {"cpu": 1000}}, headers=headers, timeout=10)


def spans_of(traces: Receiver, trace_id: str, names: set[str]) -> None:
    wait_until(
        lambda: names <= {span.name for span in traces.of_trace(trace_id)},
        within_s=20,
        otherwise=lambda: f"only {[span.name for span in traces.of_trace(trace_id)]}",
    )


@pytest.mark.slow
@pytest.mark.service("postgresql", "rabbitmq")
def test_one_trace_goes_through_all_processes(tmp_path: Path, postgresql: PostgresServer, rabbitmq_url: str) -> None:
    url = asyncio.run(postgresql.create_database(f"traces_{os.getpid()}"))
    with (
        receiver() as traces,
        cluster(tmp_path, database_url=url, broker_url=rabbitmq_url, otel_endpoint=traces.url) as them,
    ):
        api = them.add("api", role="api")
        them.add("scheduler", role="scheduler")
        them.start()
        them.wait_for_leader()
        register_hosts(api.url, hosts=2, cores=100)
        answer = order(api.url, traceparent=f"00-{TRACE}-{CALLER}-01")
        assert answer.status_code == 202
        spans_of(traces, TRACE, {"accept", "decide", "commit", "publish", "consume"})
    spans = traces.of_trace(TRACE)
    print("\n" + drawn(spans))
    by_role = {(span.roles, span.name) for span in spans}
    assert by_role == {
        ("api", "accept"), ("api", "commit"), ("api", "publish"),
        ("scheduler", "decide"), ("scheduler", "commit"), ("scheduler", "consume"),
    }  # fmt: skip
    [accept] = [span for span in spans if span.name == "accept"]
    assert accept.parent_id == CALLER
    assert {span.parent_id for span in spans if span is not accept} == {accept.span_id}
    assert {span.attributes["virtflow.task"] for span in spans if span.name == "commit"} == {answer.json()["id"]}
    assert all(span.ended_ns >= span.began_ns for span in spans)
    assert len({span.process for span in spans}) == 2


@pytest.mark.slow
def test_a_receiver_that_is_away_costs_traces_and_one_line(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/virtflow.db"
    with receiver() as traces:
        traces.is_away = True
        with cluster(tmp_path, database_url=url, otel_endpoint=traces.url, log_level="warning") as them:
            process = them.add("one")
            them.start()
            register_hosts(process.url, hosts=2, cores=1000)

            def said(word: str) -> bool:
                assert order(process.url).status_code == 202
                return word in process.log_text()

            wait_until(lambda: said("traces.lost"))
            assert process.log_text().count("traces.") == 1
            traces.is_away = False
            trace_id = "a" * 32
            assert order(process.url, traceparent=f"00-{trace_id}-{CALLER}-01").status_code == 202
            spans_of(traces, trace_id, {"accept", "decide", "commit"})
            assert "Traceback" not in process.log_text()
            assert process.terminate() == 0


def test_without_the_extra_the_setting_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(InvalidSetting, match="VIRTFLOW_OTEL_ENDPOINT") as caught:
        build(config(tmp_path / "virtflow.db", otel_endpoint="http://127.0.0.1:4318"), inventories=[])
    assert "virtflow[otel]" in caught.value.remedy


@pytest.mark.parametrize(("share", "traced"), [(0.0, 0), (0.5, 500), (1.0, 1000)])
def test_a_share_of_those_who_do_not_say_is_traced_and_all_who_do(share: float, traced: int) -> None:
    tracer = OtelTracer("http://127.0.0.1:9", share=share, process="p", roles=["api"])
    drawn_lots = sum(bool(tracer.begin(None)[0]) for _ in range(1000))
    assert abs(drawn_lots - traced) <= 100 * (0 < share < 1)
    given = f"00-{TRACE}-{CALLER}-01"
    trace, parent = tracer.begin(given.encode())
    assert parent == given
    assert re.fullmatch(f"00-{TRACE}-(?!{CALLER})[0-9a-f]{{16}}-01", trace)
    assert tracer.begin(given[:-2].encode() + b"00") == ("", "")
    asyncio.run(tracer.close())
