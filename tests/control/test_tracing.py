"""Which spans a request leaves, in one process and in two; and nothing at all without a tracer."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.api.conftest import VM, Api, app_of
from tests.control.conftest import config, host, order
from tests.control.test_cluster import soon
from tests.control.test_deliver import subscribe
from tests.control.test_schedule import register, until_placed

from virtflow.control.orders import Cause
from virtflow.control.tracing import Span, child_of, new_trace, read_traceparent
from virtflow.main import Service, build
from virtflow.main import service as main
from virtflow.store.contract import EventFilter
from virtflow.testing.election import Assembly
from virtflow.testing.queue import Wire
from virtflow.testing.receiver import Behaviour, receiver
from virtflow.testing.sink import MemorySink

GIVEN = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Notebook:
    """A tracer that keeps what it is told."""

    state = "ok"

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.is_closed = False

    def begin(self, given: bytes | None) -> tuple[str, str]:
        caller = read_traceparent(given)
        if caller is None:
            return new_trace(), ""
        return (child_of(caller[0]), caller[0]) if caller[1] else ("", "")

    def write(self, span: Span) -> None:
        self.spans.append(span)

    async def close(self) -> None:
        self.is_closed = True

    def names(self) -> list[str]:
        return [span.name for span in self.spans]


Start = Callable[..., AbstractAsyncContextManager[Service]]


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture
def service(notebook: Notebook, url: str, tmp_path: Path) -> Service:
    return build(config(tmp_path / "virtflow.db", database_url=url), inventories=[], tracer=notebook)


async def test_a_request_leaves_the_spans_of_its_steps(service: Service, notebook: Notebook) -> None:
    async with service.running():
        await register(service, host("bm-1"))
        answer = await Api(app_of(service)).post("/v1/vms", VM, headers={"traceparent": GIVEN.decode()})
        assert answer.status == 202
        await soon(lambda: len(notebook.spans) == 3)
    by_name = {span.name: span for span in notebook.spans}
    accept = by_name["accept"]
    assert (accept.kind, accept.parent) == ("server", GIVEN.decode())
    assert accept.attributes["http.route"] == "/v1/vms"
    assert accept.attributes["http.response.status_code"] == 202
    for name in ("decide", "commit"):
        span = by_name[name]
        assert (span.parent, span.kind) == (accept.trace, "internal")
        assert span.attributes["virtflow.task"] == answer.json["id"]
        assert (span.attributes["virtflow.tasks"], span.attributes["virtflow.placed"]) == (1, 1)
        assert accept.began_s <= span.began_s <= span.ended_s
    assert len({span.trace.split("-")[1] for span in notebook.spans}) == 1
    assert len({span.trace for span in notebook.spans}) == 3
    assert notebook.is_closed


async def test_the_event_carries_the_trace_out_of_the_house(service: Service, notebook: Notebook) -> None:
    async with service.running():
        await register(service, host("bm-1"))
        await Api(app_of(service)).post("/v1/vms/batch", {"items": [VM, VM]}, headers={"traceparent": GIVEN.decode()})
        events = await service.store.events(EventFilter(types=("task.",)), after=0, limit=10)
        await soon(lambda: "accept" in notebook.names())
    [accept] = [span for span in notebook.spans if span.name == "accept"]
    assert [event.trace for event in events] == [accept.trace] * 2
    assert notebook.names().count("commit") == 1  # one for the request, not one for each VM


async def test_who_does_not_want_a_trace_gets_none(service: Service, notebook: Notebook) -> None:
    async with service.running():
        await register(service, host("bm-1"))
        api = Api(app_of(service))
        await api.post("/v1/vms", VM, headers={"traceparent": GIVEN.decode()[:-2] + "00"})
        await api.get("/v1/vms")
        events = await service.store.events(EventFilter(types=("task.",)), after=0, limit=10)
        await asyncio.sleep(0.01)
    assert notebook.spans == []
    assert [event.trace for event in events] == [""]


async def test_a_refused_order_is_traced_too(service: Service, notebook: Notebook) -> None:
    async with service.running():
        await Api(app_of(service)).post("/v1/vms", {"resources": {"cpu": -1}})
    [span] = notebook.spans
    assert (span.name, span.parent, span.error) == ("accept", "", "")
    assert span.attributes["http.response.status_code"] == 422


async def test_without_a_tracer_nothing_is_written_anywhere(url: str, tmp_path: Path) -> None:
    service = build(config(tmp_path / "virtflow.db", database_url=url), inventories=[])
    async with service.running():
        await register(service, host("bm-1"))
        await Api(app_of(service)).post("/v1/vms", VM, headers={"traceparent": GIVEN.decode()})
        events = await service.store.events(EventFilter(types=("task.",)), after=0, limit=10)
    assert (service.house.tracer, service.rounds) == (None, None)
    assert [event.trace for event in events] == [""]


async def test_a_bus_that_is_told_has_a_span_of_the_request_and_one_that_fails_says_so(
    notebook: Notebook, url: str, tmp_path: Path
) -> None:
    sink = MemorySink("nats")
    sink.is_away = True
    given = config(tmp_path / "virtflow.db", database_url=url)
    service = build(given, inventories=[], tracer=notebook, sinks=[sink])
    async with service.running():
        await register(service, host("bm-1"))
        await Api(app_of(service)).post("/v1/vms/batch", {"items": [VM, VM]}, headers={"traceparent": GIVEN.decode()})
        await soon(lambda: any(span.name == "deliver" and span.error for span in notebook.spans))
        sink.is_away = False
        await soon(lambda: any(span.name == "deliver" and not span.error for span in notebook.spans))
    [accept] = [span for span in notebook.spans if span.name == "accept"]
    delivered = [span for span in notebook.spans if span.name == "deliver"]
    assert {(span.kind, span.parent) for span in delivered} == {("producer", accept.trace)}
    assert delivered[-1].attributes["messaging.system"] == "nats"
    assert delivered[-1].attributes["messaging.batch.message_count"] == 2
    assert {event.traceparent for event in sink.arrived if event.type == "virtflow.task.completed"} == {accept.trace}


async def test_a_webhook_has_a_span_and_hands_it_on_to_the_receiver(
    notebook: Notebook, url: str, tmp_path: Path
) -> None:
    given = config(tmp_path / "virtflow.db", database_url=url, webhook_allow="127.0.0.0/8")
    service = build(given, inventories=[], tracer=notebook)
    async with service.running(), receiver() as hook:
        hook.behaviour = Behaviour.ERROR
        await subscribe(service, hook, events=("task.",))
        await register(service, host("bm-1"))
        await Api(app_of(service)).post("/v1/vms", VM, headers={"traceparent": GIVEN.decode()})
        await soon(lambda: any(span.name == "deliver" and span.error for span in notebook.spans))
    [accept] = [span for span in notebook.spans if span.name == "accept"]
    deliver = next(span for span in notebook.spans if span.name == "deliver")
    assert (deliver.kind, deliver.parent) == ("client", accept.trace)
    assert deliver.attributes["http.response.status_code"] == 500
    assert hook.messages[0].headers["traceparent"] == deliver.trace
    assert json.loads(hook.messages[0].body)["traceparent"] == accept.trace


async def test_what_no_trace_belongs_to_is_sent_without_one(notebook: Notebook, url: str, tmp_path: Path) -> None:
    given = config(tmp_path / "virtflow.db", database_url=url, webhook_allow="127.0.0.0/8")
    service = build(given, inventories=[], tracer=notebook)
    async with service.running(), receiver() as hook:
        await subscribe(service, hook)
        # a text of somebody else that looks like a trace is none
        await register(service, host("bm-1", labels={"x": f'","traceparent":"{GIVEN.decode()}"'}))
        await soon(lambda: bool(hook.messages))
    assert "traceparent" not in hook.messages[0].headers
    assert notebook.spans == []


@pytest.mark.service("postgresql")
async def test_what_another_process_accepted_goes_on_in_the_same_trace(
    postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "LEAD_AT_START_S_MAX", 0.02)
    assembly, wire, books = Assembly(), Wire(), (Notebook(), Notebook())
    first, second = (
        build(
            config(tmp_path / "unused.db", database_url=postgresql_url),
            inventories=[],
            election=assembly.candidate(),
            queue=wire,
            tracer=book,
        )
        for book in books
    )
    async with first.running(), second.running():
        await soon(lambda: first.scheduler.is_leading or second.scheduler.is_leading)
        leads, follows = (0, 1) if first.scheduler.is_leading else (1, 0)
        leader, follower = (first, second)[leads], (first, second)[follows]
        await register(leader, host("bm-1"))
        trace = new_trace()
        await follower.house.vms.create([order("web")], together=False, actor="test", cause=Cause("r", trace))
        await until_placed(follower, "web")
        await soon(lambda: set(books[leads].names()) == {"decide", "commit", "consume"})
        events = await leader.store.events(EventFilter(types=("task.",)), after=0, limit=10)
    assert books[follows].names() == ["commit"]
    assert {span.parent for book in books for span in book.spans} == {trace}
    assert [(event.type.value, event.trace) for event in events] == [
        ("task.accepted", trace),
        ("task.completed", trace),
    ]


def test_only_a_traceparent_is_taken_for_one() -> None:
    assert read_traceparent(GIVEN) == (GIVEN.decode(), True)
    assert read_traceparent(b" " + GIVEN[:-2] + b"00 ") == (GIVEN.decode()[:-2] + "00", False)
    wrong = (
        None, b"", b"x", GIVEN.upper(), GIVEN + b"-x", b"01" + GIVEN[2:], GIVEN[:-1],
        b"00-" + b"0" * 32 + GIVEN[35:], GIVEN[:36] + b"0" * 16 + b"-01", b"\xff" * 55,
    )  # fmt: skip
    assert [read_traceparent(given) for given in wrong] == [None] * len(wrong)


def test_spans_of_one_trace_differ() -> None:
    trace = new_trace()
    children = {child_of(trace) for _ in range(100)}
    assert len(children) == 100
    assert {child.split("-")[1] for child in children} == {trace.split("-")[1]}
    assert all(read_traceparent(child.encode()) for child in children)
