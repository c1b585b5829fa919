"""The server around the API, by real sockets: nothing that trickles stays, and a stop keeps nobody waiting."""

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.api.conftest import VM, app_of

from virtflow.api.server import FILES_OF_OURS, Patience, listen, run_server, with_room_for_connections
from virtflow.main import Service
from virtflow.model.errors import InvalidSetting

QUICK = Patience(header_s_max=0.3, idle_s_max=0.5, write_s_max=0.3, stop_s_max=1.0, connections_max=8)
HEAD = b"POST /v1/vms HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@contextlib.asynccontextmanager
async def serving(app: Any, patience: Patience = QUICK) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    address: asyncio.Future[str] = loop.create_future()
    stop = asyncio.Event()
    running = asyncio.create_task(
        run_server(app, host="127.0.0.1", port=0, ready=address.set_result, stop=stop, patience=patience)
    )
    try:
        yield int((await address).rpartition(":")[2])
    finally:
        stop.set()
        async with asyncio.timeout(3):
            await running


@pytest.fixture
async def port(service: Service) -> AsyncIterator[int]:
    async with serving(app_of(service, body_s_max=0.3)) as port:
        yield port


async def talk(port: int, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    """Sends the pieces, and reads meanwhile until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def say() -> None:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause_s)

    saying = asyncio.create_task(say())
    received = b""
    try:
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(30):
                while chunk := await reader.read(65536):
                    received += chunk
    finally:
        saying.cancel()
        writer.close()
    return received


def problem(answer: bytes) -> Any:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    return json.loads(body)


# ── what trickles ─────────────────────────────────────────────────────────────────────────────────


async def test_a_connection_that_says_nothing_is_closed(port: int) -> None:
    assert problem(await talk(port))["code"] == "headers_too_slow"


async def test_headers_that_trickle_are_closed(port: int) -> None:
    started = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def drip() -> None:
        writer.write(b"GET / HTTP/1.1\r\n")
        while True:
            writer.write(b"x: y\r\n")
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    async with asyncio.timeout(3):
        assert problem(await reader.read())["status"] == 408
    assert time.monotonic() - started < 1.5
    dripping.cancel()
    writer.close()


async def test_blank_lines_that_trickle_are_closed(port: int) -> None:
    """The parser takes them for nothing, so nothing but a clock ends them."""
    async with asyncio.timeout(3):
        await talk(port, *[b"\r\n"] * 12, pause_s=0.05)


async def test_headers_of_a_second_request_that_trickle_are_closed(port: int) -> None:
    answer = await talk(port, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /readyz", pause_s=0.1)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"headers_too_slow" in answer


async def test_a_body_that_trickles_is_closed(port: int) -> None:
    answer = await talk(port, HEAD + b"Content-Length: 999\r\n\r\n", *[b" "] * 5, pause_s=0.1)
    assert problem(answer)["code"] == "body_too_slow"
    assert b"connection: close" in answer


async def test_a_body_that_trickles_behind_a_refusal_is_closed(port: int) -> None:
    head = b"POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n"
    async with asyncio.timeout(3):
        assert problem(await talk(port, head, *[b" "] * 12, pause_s=0.05))["code"] == "no_such_route"


async def test_an_idle_connection_is_closed(port: int) -> None:
    started = time.monotonic()
    assert (await talk(port, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert time.monotonic() - started < 2


async def test_headers_without_end_are_refused(port: int) -> None:
    answer = await talk(port, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000)
    assert problem(answer)["code"] == "headers_too_large"


async def test_what_is_no_http_is_refused(port: int) -> None:
    for nonsense in (b"\x16\x03\x01\x02\x00\x01", b"nope\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"):
        assert problem(await talk(port, nonsense))["code"] == "malformed_request"


async def test_a_client_that_does_not_read_is_cut_off(service: Service) -> None:
    async def flood(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
            if (await asyncio.wait({asyncio.ensure_future(receive())}, timeout=0.001))[0]:
                ended.set()
                return

    ended = asyncio.Event()
    async with serving(flood) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(4):
            await ended.wait()
        writer.close()


async def test_so_many_connections_and_no_more(service: Service) -> None:
    healthy = b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with serving(app_of(service), Patience(connections_max=8)) as port:
        open_ones = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        while b"too_many_connections" not in (answer := await talk(port, healthy)):
            await asyncio.sleep(0.01)  # the server has not yet seen all of them
        assert problem(answer)["status"] == 503
        assert b"retry-after: 1" in answer
        for _, writer in open_ones:
            writer.close()
        while not (await talk(port, healthy)).startswith(b"HTTP/1.1 200"):
            await asyncio.sleep(0.01)


async def test_a_slow_crowd_does_not_hold_up_the_others(service: Service) -> None:
    """F36: 200 connections that trickle; a healthy request is answered at once."""
    async with serving(app_of(service), Patience(header_s_max=2, connections_max=1000)) as port:
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        for _, writer in slow:
            writer.write(b"GET / HTTP/1.1\r\nx:")
        started = time.monotonic()
        answer = await talk(port, b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
        assert time.monotonic() - started < 0.5
        for _, writer in slow:
            writer.close()


# ── what is large ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("declared", [True, False])
async def test_the_refusal_of_a_large_body_is_readable_while_it_is_sent(service: Service, declared: bool) -> None:
    """A server that just closed would reset the line before the client has read why."""
    size = 10 * 2**20
    length = b"Content-Length: %d\r\n\r\n" % size if declared else b"Transfer-Encoding: chunked\r\n\r\n"
    piece = b"x" * 2**18 if declared else b"40000\r\n" + b"x" * 2**18 + b"\r\n"
    async with serving(app_of(service, linger_s_max=0.5)) as port:
        answer = await talk(port, HEAD + length, *[piece] * 40)
    assert (problem(answer)["status"], problem(answer)["code"]) == (413, "body_too_large")


async def test_a_client_that_goes_away_leaves_nothing(service: Service, port: int) -> None:
    """F34: closed after each stage; what was accepted is whole, what was not is nothing."""
    body = json.dumps(VM).encode()
    whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    for cut in (1, 20, len(HEAD), len(whole) - len(body), len(whole) - 1):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(whole[:cut])
        await writer.drain()
        writer.transport.abort()
    answer = await talk(port, b"GET /v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b'"newest":0' in answer


async def test_continue_is_said_before_a_body_is_sent(service: Service, port: int) -> None:
    answer = await talk(port, HEAD + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n", b"{}", pause_s=0.1)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 422")


async def test_requests_may_be_sent_before_the_answers_are_read(port: int) -> None:
    one = b"GET /readyz HTTP/1.1\r\nHost: x\r\n"
    answer = await talk(port, (one + b"\r\n") * 3 + one + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200") == 4


# ── starting and stopping ─────────────────────────────────────────────────────────────────────────


async def test_a_stop_ends_streams_with_a_word_and_at_once(service: Service) -> None:
    async with serving(app_of(service)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v1/events/stream HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b": welcome\n\n")
        started = time.monotonic()
    assert time.monotonic() - started < 0.6
    assert b"event: server.closing" in await reader.read()
    writer.close()


async def test_a_stop_lets_requests_under_way_finish() -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.3)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with serving(slow) as port:
        asking = asyncio.create_task(talk(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
        await asyncio.sleep(0.1)
    answer = await asking
    assert answer.endswith(b"ok")
    assert b"connection: close" in answer


@contextlib.asynccontextmanager
async def draining(
    app: Any, *, drain_s: float
) -> AsyncIterator[tuple[int, asyncio.Event, list[str], asyncio.Task[None]]]:
    """Port, the word to stop, what was heard of it, and the server itself."""
    loop = asyncio.get_running_loop()
    address: asyncio.Future[str] = loop.create_future()
    stop, heard = asyncio.Event(), list[str]()
    running = asyncio.create_task(
        run_server(
            app,
            host="127.0.0.1",
            port=0,
            ready=address.set_result,
            leaving=lambda: heard.append("leaving"),
            stop=stop,
            patience=Patience(drain_s=drain_s, stop_s_max=1.0),
        )
    )
    try:
        yield int((await address).rpartition(":")[2]), stop, heard, running
    finally:
        stop.set()
        async with asyncio.timeout(5):
            await running


PROBE = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head + await reader.readexactly(length)


async def test_a_server_told_to_stop_answers_on_and_closes_each_connection_with_its_answer(service: Service) -> None:
    async with draining(app_of(service), drain_s=0.6) as (port, stop, heard, _):
        idle = await asyncio.open_connection("127.0.0.1", port)
        idle[1].write(PROBE)
        assert b"connection: close" not in await read_answer(idle[0])
        stop.set()
        while not heard:
            await asyncio.sleep(0.01)
        idle[1].write(PROBE)  # a client with a kept connection knows nothing yet
        assert (await read_answer(idle[0])).startswith(b"HTTP/1.1 200")
        assert await idle[0].read() == b""
        answer = await talk(port, PROBE)  # and a new one is answered as well
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer
        idle[1].close()
    assert heard == ["leaving"]
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_streams_end_at_the_word_not_after_the_drain(service: Service) -> None:
    async with draining(app_of(service), drain_s=1.0) as (port, stop, _, running):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v1/events/stream HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b": welcome\n\n")
        stop.set()
        await reader.readuntil(b"event: server.closing")
        assert not running.done()
        writer.close()


async def test_a_request_under_way_at_the_word_to_stop_is_answered_and_its_connection_closed() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        began.set()
        await go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with draining(slow, drain_s=0.3) as (port, stop, heard, _):
        asking = asyncio.create_task(talk(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
        await began.wait()
        stop.set()
        while not heard:
            await asyncio.sleep(0.01)
        go_on.set()
        answer = await asking
    assert answer.endswith(b"ok")
    assert b"connection: close" in answer


def test_a_signal_stops_the_server_and_leaves_the_program_to_clean_up() -> None:
    program = textwrap.dedent("""
        import asyncio, sys
        from virtflow.api.server import run_server
        async def app(scope, receive, send): pass
        async def main():
            await run_server(app, host="127.0.0.1", port=0, ready=lambda address: print(address, flush=True))
            print("cleaned up", flush=True)
        asyncio.run(main())
    """)
    for one in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(one)
        out, _ = process.communicate(timeout=5)
        assert (process.returncode, out) == (0, "cleaned up\n")


def test_a_port_in_use_is_named_by_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(InvalidSetting) as caught:
        listen("127.0.0.1", other.getsockname()[1])
    assert "VIRTFLOW_PORT" in caught.value.detail
    assert "free port" in caught.value.remedy


@pytest.mark.parametrize("host", ["no-such-host.invalid", "203.0.113.1", "a" * 70])
def test_an_address_of_somebody_else_is_named_by_its_setting(host: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        listen(host, 0)
    assert "VIRTFLOW_HOST" in caught.value.detail


@pytest.mark.skipif(os.geteuid() == 0, reason="root may listen everywhere")
def test_a_port_of_root_is_named_by_its_setting() -> None:
    with pytest.raises(InvalidSetting, match="VIRTFLOW_PORT"):
        listen("127.0.0.1", 80)


def test_there_are_never_more_connections_than_files() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert with_room_for_connections(Patience(connections_max=10)).connections_max == 10
    try:
        granted = with_room_for_connections(Patience(connections_max=before[1] + 1000)).connections_max
        assert granted == resource.getrlimit(resource.RLIMIT_NOFILE)[0] - FILES_OF_OURS
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_ipv6_is_an_address_too() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with contextlib.suppress(InvalidSetting):  # a machine may have it switched off
        listen("::1", 0).close()
