"""What happened, read in pieces or followed for ever."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import VM, Api, app_of, host

from virtflow.api import events as module
from virtflow.api.events import STOPPING, EventOut
from virtflow.main import Service
from virtflow.model.errors import Gone
from virtflow.model.event import EventType

DOC = Path(__file__).parents[2] / "docs/events.md"


class Reader:
    """A client of a stream, in front of the app."""

    def __init__(self, app: Any, path: str = "/v1/events/stream", **headers: str) -> None:
        self.stopping, self.gone, self.pieces = asyncio.Event(), asyncio.Event(), asyncio.Queue[Any]()
        target, _, query = path.partition("?")
        given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        self._scope = {
            "type": "http", "method": "GET", "path": target, "raw_path": target.encode(), "root_path": "",
            "query_string": query.encode(), "headers": given, "state": {STOPPING: self.stopping},
        }  # fmt: skip
        self._task = asyncio.create_task(app(self._scope, self._receive, self.pieces.put))

    async def _receive(self) -> Any:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def start(self) -> Any:
        return await self._next()

    async def frame(self) -> dict[str, str]:
        """The next event; comments are skipped."""
        while True:
            if not getattr(self, "_frames", None):
                message = await self._next()
                self._frames = message.get("body", b"").decode().split("\n\n")[:-1]
                continue
            frame = self._frames.pop(0)
            if not frame.startswith(":"):
                return dict(line.split(": ", 1) for line in frame.split("\n"))  # type: ignore[misc]

    async def _next(self) -> Any:
        async with asyncio.timeout(5):
            return await self.pieces.get()

    async def ended(self) -> None:
        async with asyncio.timeout(1):
            await self._task


@contextlib.asynccontextmanager
async def reading(app: Any, path: str = "/v1/events/stream", **headers: str) -> AsyncIterator[Reader]:
    reader = Reader(app, path, **headers)
    try:
        yield reader
    finally:
        reader.gone.set()
        await reader.ended()


# ── in pieces ─────────────────────────────────────────────────────────────────────────────────────


async def test_the_log_is_read_in_pieces(api: Api, bm: str) -> None:
    await api.post("/v1/vms", VM)
    first = (await api.get("/v1/events?limit=1")).json
    rest = (await api.get(f"/v1/events?after={first['next_after']}")).json
    seen = [*first["items"], *rest["items"]]
    assert [event["seq"] for event in seen] == list(range(1, rest["newest"] + 1))
    assert seen[0]["type"] == "host.registered"
    assert rest["next_after"] == rest["newest"]
    assert (await api.get(f"/v1/events?after={rest['newest']}")).json["items"] == []


async def test_events_are_filtered(api: Api, bm: str) -> None:
    vm = (await api.post("/v1/vms", VM)).json
    await api.delete(f"/v1/vms/{vm['name']}")
    for query, types in (
        ("type=host.", {"host.registered"}),
        ("type=vm.deleted&type=host.registered", {"vm.deleted", "host.registered"}),
        ("kind=vm", {"vm.deleted"}),
        (f"id={vm['task_id']}&kind=task", {"task.completed"}),
        (f"id={bm}", {"host.registered"}),
        ("kind=pool", set()),
    ):
        assert {event["type"] for event in (await api.get(f"/v1/events?{query}")).json["items"]} == types, query
    for query in ("type=nope", "type=ho.", "type=", "kind=x", "id=%00", "id=a%20b", "after=-1", "limit=1001"):
        assert (await api.get(f"/v1/events?{query}")).status == 422, query


async def test_events_that_are_no_longer_kept_are_gone(service: Service, api: Api, bm: str) -> None:
    for _ in range(5):
        await api.post("/v1/vms", VM)
    await service.store.trim_events(keep=2)
    for path in ("/v1/events?after=0", "/v1/events/stream?after=0"):
        answer = await api.get(path)
        assert (answer.status, answer.code) == (410, "events_gone")
    assert (await api.get("/v1/info")).status == 200
    oldest = (await api.get(f"/v1/events?after={10**9}")).json["oldest"]
    assert (await api.get(f"/v1/events?after={oldest - 1}")).status == 200


def test_the_document_names_every_event_and_field() -> None:
    text = DOC.read_text()
    assert set(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|", text, re.MULTILINE)) == {one.value for one in EventType}
    part = text.split("## Fields")[1].split("## Types")[0]
    fields = set(re.findall(r"^\| `([a-z]+)` \|", part, re.MULTILINE))
    assert fields == set(EventOut.__struct_fields__)


# ── for ever ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_stream_begins_with_what_comes_next(api: Api, bm: str) -> None:
    async with reading(api.app) as reader:
        start = await reader.start()
        assert start["status"] == 200
        assert (b"content-type", b"text/event-stream") in start["headers"]
        await asyncio.sleep(0.05)
        await api.post("/v1/hosts", host("b"))
        frame = await reader.frame()
        assert (frame["id"], frame["event"]) == ("2", "host.registered")
        assert '"id":"b"' in frame["data"]


async def test_a_stream_resumes_where_it_was(api: Api, bm: str) -> None:
    for _ in range(3):
        await api.post("/v1/vms", VM)
    async with reading(api.app, "/v1/events/stream?after=2") as reader:
        assert [(await reader.frame())["id"] for _ in range(2)] == ["3", "4"]
    async with reading(api.app, "/v1/events/stream?after=0", last_event_id="3") as reader:
        assert (await reader.frame())["id"] == "4"


async def test_a_stream_is_filtered(api: Api, bm: str) -> None:
    async with reading(api.app, "/v1/events/stream?after=0&type=vm.") as reader:
        vm = (await api.post("/v1/vms", VM)).json
        await api.delete(f"/v1/vms/{vm['id']}")
        assert (await reader.frame())["event"] == "vm.deleted"


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "9" * 30])
async def test_a_wrong_last_event_id_is_refused(api: Api, number: str) -> None:
    answer = await api.get("/v1/events/stream", headers={"last-event-id": number})
    assert (answer.status, answer.code) == (400, "bad_header")


async def test_an_idle_stream_says_that_it_lives(service: Service) -> None:
    async with reading(app_of(service, heartbeat_s=0.02)) as reader:
        await reader.start()
        bodies = [(await reader._next())["body"] for _ in range(3)]
        assert bodies == [b": welcome\n\n", b": still here\n\n", b": still here\n\n"]


async def test_a_stream_ends_with_a_word_when_the_server_stops(api: Api) -> None:
    """No id: a control frame must not move the reader's place."""
    async with reading(api.app) as reader:
        await reader.start()
        reader.stopping.set()
        frame = await reader.frame()
        assert frame["event"] == "server.closing"
        assert "id" not in frame
        await reader.ended()


async def test_a_stream_ends_when_the_service_stops(service: Service, api: Api) -> None:
    async with reading(api.app) as reader:
        await reader.start()
        await asyncio.sleep(0.02)
        service.feed.close()
        assert (await reader.frame())["event"] == "server.closing"


async def test_streams_are_counted_and_given_back(service: Service) -> None:
    app = app_of(service, streams_max=2)
    api = Api(app)
    async with reading(app) as first, reading(app) as second:
        await first.start()
        await second.start()
        answer = await api.get("/v1/events/stream")
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (429, "too_many_requests", "10")
    async with reading(app) as third:
        assert (await third.start())["status"] == 200


async def test_a_reader_that_falls_too_far_behind_is_told_to_begin_anew(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow(*_: object, **__: object) -> Any:
        raise Gone("events before 7 are no longer kept")
        yield

    monkeypatch.setattr(type(service.house.events), "follow", follow)
    async with reading(api.app) as reader:
        await reader.start()
        frame = await reader.frame()
        assert (frame["event"], "id" in frame) == ("server.gone", False)
        assert "events_gone" in frame["data"]


async def test_a_reader_that_reads_nothing_is_given_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITE_S_MAX", 0.02)
    stuck = asyncio.Event()

    async def send(message: Any) -> None:
        if b"still" in message.get("body", b""):
            await stuck.wait()

    async def receive() -> Any:
        await stuck.wait()

    scope = {"type": "http", "method": "GET", "path": "/v1/events/stream", "raw_path": b"/v1/events/stream",
             "query_string": b"", "headers": [], "root_path": ""}  # fmt: skip
    async with asyncio.timeout(2):
        await app_of(service, heartbeat_s=0.02)(scope, receive, send)


async def test_head_of_a_stream_ends_at_once(api: Api) -> None:
    answer = await api("HEAD", "/v1/events/stream")
    assert (answer.status, answer.body) == (200, b"")


async def test_who_read_another_history_is_told(api: Api) -> None:
    await api.post("/v1/hosts", host("bm-1"))
    page = (await api.get("/v1/events")).json
    here = page["history_id"]
    assert (await api.get(f"/v1/events?after=1&history_id={here}")).status == 200
    for path in ("/v1/events", "/v1/events/stream"):
        answer = await api.get(f"{path}?after=0&history_id=00000000-0000-0000-0000-000000000000")
        assert (answer.status, answer.json["code"]) == (410, "history_over")
        assert "newest" in answer.json["remedy"]
        assert (await api.get(f"{path}?after=0&history_id={here[:-1]}")).status == 422
    beyond = page["newest"] + 10
    # a page says where to go on; a stream would be silent for ever
    assert (await api.get(f"/v1/events?after={beyond}")).json["next_after"] == page["newest"]
    answer = await api.get(f"/v1/events/stream?after={beyond}")
    assert (answer.status, answer.json["code"]) == (410, "history_over")
