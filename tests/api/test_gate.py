"""The door: tokens, hosts, ids, methods, sizes; and that whatever goes wrong leaves as a problem document."""

import asyncio
import json
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.api.conftest import SCHEDULE, VM, Api, app_of

from virtflow.api.app import OPERATIONS
from virtflow.api.body import Bodies, linger
from virtflow.api.errors import TooSlow
from virtflow.main import Service
from virtflow.model.errors import Busy, OutcomeUnknown, Unavailable
from virtflow.model.secret import Secret

BODIES: dict[str, object] = {"/schedule": SCHEDULE, "/v1/vms": VM, "/v1/vms/batch": {"items": [VM]}}


# ── who may come in ───────────────────────────────────────────────────────────────────────────────


async def test_every_route_but_the_probes_needs_the_token(service: Service) -> None:
    api = Api(app_of(service, token=Secret("s3cret")))
    paths = {operation.path for operation in OPERATIONS} | {"/docs", "/docs/docs.js", "/openapi.json", "/nope"}
    for path in paths - {"/healthz", "/readyz"}:
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "s3cret"},
            {"authorization": "Bearer "},
        ):
            answer = await api.get(path, headers=headers)
            assert (answer.status, answer.code) == (401, "unauthorized"), path
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert b"s3cret" not in answer.body
    for path in ("/healthz", "/readyz"):
        assert (await api.get(path)).status == 200
    for scheme in ("Bearer", "bearer"):
        assert (await api.get("/v1/hosts", headers={"authorization": f"{scheme} s3cret"})).status == 200
    assert (await api.post("/v1/vms", VM, headers={"authorization": "Bearer ü"})).status == 401


async def test_without_a_token_none_is_needed(api: Api) -> None:
    assert (await api.get("/v1/hosts")).status == 200


async def test_a_process_without_the_role_api_serves_only_those_who_watch_it(service: Service) -> None:
    api = Api(app_of(service, roles=frozenset({"scheduler", "relay"})))
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await api.get(path)).status == 200
        assert (await api("HEAD", path)).status == 200
    paths = {operation.path for operation in OPERATIONS} | {"/docs", "/openapi.json", "/nope", "/metrics/x", "/"}
    for path in paths - {"/healthz", "/readyz", "/metrics"}:
        for method in ("GET", "POST"):
            answer = await api(method, path)
            assert (answer.status, answer.code) == (421, "not_served_here"), path
            assert "relay and scheduler" in answer.json["detail"]
            assert "--role api" in answer.json["remedy"]


async def test_what_is_served_elsewhere_is_not_told_to_strangers(service: Service) -> None:
    api = Api(app_of(service, roles=frozenset({"relay"}), token=Secret("s3cret")))
    assert (await api.get("/v1/hosts")).status == 401
    assert (await api.get("/v1/hosts", headers={"authorization": "Bearer s3cret"})).status == 421
    assert (await api.get("/metrics")).status == 401


async def test_another_host_is_not_us(service: Service) -> None:
    """A web page that made its own name point to 127.0.0.1 must not speak to us in the reader's name."""
    api = Api(app_of(service, allowed_hosts=frozenset({"127.0.0.1", "localhost", "[::1]"})))
    for host in ("127.0.0.1", "127.0.0.1:8080", "LOCALHOST:1", "[::1]:8080", "[::1]"):
        assert (await api.get("/healthz", headers={"host": host})).status == 200, host
    for host in ("evil.example", "evil.example:8080", "", "127.0.0.1.evil.example", "[::2]"):
        answer = await api.get("/healthz", headers={"host": host})
        assert (answer.status, answer.code) == (421, "wrong_host"), host


async def test_a_page_of_another_site_cannot_send_us_anything(api: Api) -> None:
    """No CORS headers, and what a form can send is refused by its type."""
    answer = await api.post("/v1/vms", VM, headers={"content-type": "text/plain", "origin": "https://evil.example"})
    assert answer.status == 415
    assert not any(name.startswith("access-control") for name in answer.headers)
    assert (await api("OPTIONS", "/v1/vms", headers={"origin": "https://evil.example"})).status == 405


# ── paths and methods ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["/nope", "/v1", "/v1/hosts/", "/v1/hosts/a/b", "//v1/hosts", "/V1/hosts", "/", "/docs/../x"]
)
async def test_nothing_elsewhere(api: Api, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status, answer.code) == (404, "no_such_route")
    assert answer.json["instance"] == path


async def test_other_methods_are_refused_with_the_ones_there_are(api: Api) -> None:
    methods = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "HEAD"}
    by_path: dict[str, set[str]] = {}
    for operation in OPERATIONS:
        path = operation.path.replace("{name}", "x").replace("{task_id}", "x")
        by_path.setdefault(path, set()).add(operation.method)
    for path, known in by_path.items():
        allowed = known | ({"HEAD"} if "GET" in known else set())
        # /v1/hosts/batch is also the host of that name, and so on
        others = [one for one in by_path if one != path and one.rsplit("/", 1) == [path.rsplit("/", 1)[0], "x"]]
        for one in others:
            allowed |= by_path[one] | {"HEAD"}
        for method in methods - allowed:
            answer = await api(method, path)
            if method != "HEAD":
                assert (answer.status, answer.code) == (405, "wrong_method"), (method, path)
            assert set(answer.headers["allow"].split(", ")) == allowed, (method, path)


async def test_head_is_get_without_the_body(api: Api, bm: str) -> None:
    for path in ("/v1/hosts", f"/v1/hosts/{bm}", "/result/nope", "/docs", "/openapi.json", "/metrics"):
        head, get = await api("HEAD", path), await api.get(path)
        assert (head.status, head.body) == (get.status, b"")
        assert head.headers["content-type"] == get.headers["content-type"]


# ── ids and failures ──────────────────────────────────────────────────────────────────────────────


async def test_a_request_id_is_echoed_or_drawn(api: Api) -> None:
    assert (await api.get("/v1/hosts", headers={"x-request-id": "abc-1"})).headers["x-request-id"] == "abc-1"
    assert (await api.post("/v1/vms", {}, headers={"x-request-id": "abc-2"})).headers["x-request-id"] == "abc-2"
    drawn = {(await api.get("/v1/hosts")).headers["x-request-id"] for _ in range(5)}
    assert len(drawn) == 5
    for bad in ("a b", "x" * 65, "a\tb", "ü", ""):
        assert (await api.get("/v1/hosts", headers={"x-request-id": bad})).headers["x-request-id"] != bad


@pytest.mark.parametrize(
    ("error", "status", "code", "retry"),
    [
        (Busy("too much", retry_after_s=7), 429, "too_many_requests", "7"),
        (Unavailable("no database"), 503, "unavailable", "1"),
        (OutcomeUnknown("lost"), 503, "outcome_unknown", "1"),
    ],
)
async def test_overload_says_when_to_come_back(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str, retry: str
) -> None:
    async def fail(*_: object, **__: object) -> Any:
        raise error

    monkeypatch.setattr(type(service.house.vms), "create", fail)
    monkeypatch.setattr(type(service.house.hosts), "list", fail)
    for answer in (await api.post("/v1/vms", VM), await api.get("/v1/hosts")):
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (status, code, retry)


async def test_a_request_for_which_there_is_no_memory_is_shed_and_the_next_is_answered(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def greedy(name: str) -> None:
        raise MemoryError

    with monkeypatch.context() as patched, capture_logs() as lines:
        patched.setattr(service.house.hosts, "get", greedy)
        answer = await api.get("/v1/hosts/x")
    assert (answer.status, answer.code) == (503, "unavailable")
    assert answer.headers["retry-after"]
    assert [line["event"] for line in lines if line["log_level"] != "info"] == ["request.failed"]
    assert (await api.get("/v1/hosts/x")).code == "host_not_found"


async def test_a_defect_tells_nothing_but_its_id(service: Service, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> Any:
        raise ValueError("password=hunter2 at /home/somebody")

    for noun in ("vms", "tasks", "hosts", "summary", "health", "placements", "events", "pools"):
        for name in ("create", "get", "result", "list", "fleet", "check", "explain", "read"):
            if hasattr(type(getattr(service.house, noun)), name):
                monkeypatch.setattr(type(getattr(service.house, noun)), name, fail)
    broken = [
        await api.post("/v1/vms", VM, headers={"x-request-id": "it-was-me"}),
        *[
            await api.get(path, headers={"x-request-id": "it-was-me"})
            for path in ("/v1/hosts", "/result/x", "/healthz")
        ],
    ]
    for answer in broken:
        assert (answer.status, answer.code) == (500, "internal_error")
        assert "it-was-me" in answer.json["detail"]
        assert b"hunter2" not in answer.body
        assert b"ValueError" not in answer.body


async def test_every_answer_forbids_guessing_its_type(api: Api, bm: str) -> None:
    for path in ("/v1/hosts", "/nope", "/docs", "/docs/docs.js", "/metrics", "/result/x"):
        assert (await api.get(path)).headers["x-content-type-options"] == "nosniff"


async def test_the_lifespan_of_a_server_is_answered(api: Api) -> None:
    asked = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    told = []

    async def receive() -> Any:
        return next(asked)

    async def send(message: Any) -> None:
        told.append(message["type"])

    await api.app({"type": "lifespan"}, receive, send)
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_websocket_is_closed(api: Api) -> None:
    told = []

    async def send(message: Any) -> None:
        told.append(message["type"])

    await api.app({"type": "websocket"}, None, send)
    assert told == ["websocket.close"]


# ── bodies ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [*BODIES, "/v1/hosts", "/v1/placements/explain"])
async def test_a_body_that_is_too_large_is_refused(service: Service, path: str) -> None:
    api = Api(app_of(service, body_bytes_max=1000))
    declared = await api.post(path, raw=b"x" * 1001)
    assert (declared.status, declared.code) == (413, "body_too_large")
    assert declared.headers["connection"] == "close"
    endless = await api.post(path, raw=[b" " * 300] * 10)
    assert (endless.status, endless.code) == (413, "body_too_large")
    lying = await api.post(path, raw=[b" " * 1001], headers={"content-length": "10"})
    assert lying.status == 413
    assert (await api.post(path, raw=b" " * 1000)).status == 400


async def test_ten_megabytes_are_too_many(api: Api) -> None:
    assert (await api.post("/v1/vms/batch", raw=b" " * 10 * 2**20)).status == 413


async def test_a_body_that_trickles_is_given_up(service: Service) -> None:
    api = Api(app_of(service, body_s_max=0.05))

    async def trickle() -> Any:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b" ", "more_body": True}

    for path in ("/v1/vms", "/v1/hosts"):
        answer = await api.post(
            path, headers={"content-length": "99", "content-type": "application/json"}, receive=trickle
        )
        assert (answer.status, answer.code) == (408, "body_too_slow")
        assert answer.headers["connection"] == "close"


async def test_many_bodies_are_timed_by_one_timer() -> None:
    bodies = Bodies(bytes_max=100, total_bytes_max=1000, s_max=0.05)
    never = asyncio.Event()

    async def nothing() -> Any:
        await never.wait()

    async def at_once() -> Any:
        return {"type": "http.request", "body": b"{}"}

    headers = {b"content-type": b"application/json"}
    slow = [asyncio.create_task(bodies.read(headers, nothing)) for _ in range(20)]
    assert await bodies.read(headers, at_once) == b"{}"
    results = await asyncio.gather(*slow, return_exceptions=True)
    assert {type(one) for one in results} == {TooSlow}
    assert not bodies._deadlines
    assert not bodies._too_slow


async def test_a_cancelled_reader_is_cancelled_not_slow() -> None:
    bodies = Bodies(bytes_max=100, total_bytes_max=1000, s_max=5)
    never = asyncio.Event()

    async def nothing() -> Any:
        await never.wait()

    task = asyncio.create_task(bodies.read({b"content-type": b"application/json"}, nothing))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not bodies._deadlines


async def test_large_bodies_together_are_bounded() -> None:
    bodies = Bodies(bytes_max=100, total_bytes_max=140, s_max=5)
    gate = asyncio.Event()

    def sender() -> Any:
        parts = iter([b"x" * 60, b"x" * 30])

        async def receive() -> Any:
            part = next(parts)
            if len(part) == 30:
                await gate.wait()
            return {"type": "http.request", "body": part, "more_body": len(part) == 60}

        return receive

    headers = {b"content-type": b"application/json"}
    first = asyncio.create_task(bodies.read(headers, sender()))
    second = asyncio.create_task(bodies.read(headers, sender()))
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert {type(one) for one in results} == {bytes, Busy}
    assert bodies._held == 0


@pytest.mark.parametrize("path", [*BODIES, "/v1/hosts"])
@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_client_that_goes_away_while_sending_leaves_nothing(api: Api, bm: str, path: str, after: int) -> None:
    parts = [b'{"items": ', b"[", b" "][:after]
    before = (await api.get("/v1/events")).json["newest"]

    async def receive() -> Any:
        if parts:
            return {"type": "http.request", "body": parts.pop(0), "more_body": True}
        return {"type": "http.disconnect"}

    answer = await api.post(path, headers={"content-length": "99", "content-type": "application/json"}, receive=receive)
    assert answer.status == 0
    assert (await api.get("/v1/events")).json["newest"] == before


async def test_a_body_where_none_is_taken_is_refused(api: Api, bm: str) -> None:
    for method, path in (("GET", "/v1/hosts"), ("DELETE", f"/v1/hosts/{bm}"), ("GET", f"/v1/hosts/{bm}")):
        answer = await api(method, path, {"x": 1})
        assert (answer.status, answer.code) == (400, "unexpected_body")
    assert (await api.get(f"/v1/hosts/{bm}")).status == 200


async def test_the_rest_of_a_refused_body_is_taken_for_a_moment_only() -> None:
    async def endless() -> Any:
        return {"type": "http.request", "body": b"x" * 2**20, "more_body": True}

    async def gone() -> Any:
        return {"type": "http.disconnect"}

    async with asyncio.timeout(2):
        await linger(endless, s_max=5)
        await linger(gone, s_max=5)


async def test_charset_utf8_is_fine(api: Api, bm: str) -> None:
    for kind in ("application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"', "application/json ;x=y"):
        assert (await api.post("/v1/vms", VM, headers={"content-type": kind})).status == 202
    assert (await api.post("/v1/vms", VM, headers={"content-encoding": "identity"})).status == 202
    answer = await api.post("/v1/vms", raw=json.dumps(VM).encode(), headers={"content-length": "+5"})
    assert (answer.status, answer.code) == (400, "bad_header")
