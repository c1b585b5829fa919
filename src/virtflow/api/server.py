"""The HTTP server around the API: uvicorn, made to close what trickles and to stop without keeping anybody waiting."""

import asyncio
import contextlib
import dataclasses
import errno
import functools
import resource
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from virtflow.api.errors import PROBLEM_TYPE, TITLES, Problem
from virtflow.api.events import STOPPING
from virtflow.api.exchange import App
from virtflow.model.errors import InvalidSetting

#: open files that are no connections: the database, the log, inventories
FILES_OF_OURS = 256

Ready = Callable[[str], Awaitable[None] | None]
_CLOSE = (b"connection", b"close")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a connection may take for what, and how many there may be."""

    #: from connecting, or from the first byte of a further request, until its headers are complete
    header_s_max: float = 8.0
    header_bytes_max: int = 64 * 1024
    #: between two requests
    idle_s_max: float = 15.0
    #: for a client to take some of what waits for it
    write_s_max: float = 30.0
    connections_max: int = 4096
    #: after the word to stop: everything is still answered, each answer being the last of its connection
    drain_s: float = 0.0
    #: for requests under way when the service stops
    stop_s_max: float = 8.0


def _problem(status: int, code: str, detail: str, remedy: str) -> bytes:
    """A whole answer for those who never became a request."""
    body = msgspec.json.encode(
        Problem(
            type=f"urn:virtflow:problem:{code}", title=TITLES[code], status=status, detail=detail, instance="",
            code=code, remedy=remedy, errors=(),
        )
    )  # fmt: skip
    head = f"HTTP/1.1 {status} \r\ncontent-type: {PROBLEM_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
    return head.encode() + (b"retry-after: 1\r\n\r\n" if status == 503 else b"\r\n") + body


_MALFORMED = _problem(400, "malformed_request", "this is not a valid HTTP/1.1 request", "send one")
_TOO_SLOW = _problem(408, "headers_too_slow", "the headers did not arrive in time", "send them at once")
_HEADERS_TOO_LARGE = _problem(431, "headers_too_large", "the headers are too large", "send fewer or shorter ones")
_FULL = _problem(503, "too_many_connections", "too many connections are open", "try again in a moment, and close yours")


class JoiningTransport:
    """Writes the head of an answer together with its first piece: one system call for a small answer, not two."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self.flush)  # where no piece follows at once
            return
        self._transport.write(data)

    def flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        self.flush()
        self._transport.close()


class Protocol(HttpToolsProtocol):
    """One connection. uvicorn bounds neither the time nor the size of headers, nor how long an answer lies unread."""

    patience = Patience()
    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = JoiningTransport(transport, self.loop)  # type: ignore[assignment]
        if len(self.connections) > self.patience.connections_max:
            self._end(_FULL)
        else:
            self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            return
        if not self._head_is_open():
            self._head_bytes = 0
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
            return
        self._head_bytes += len(data)
        if self._head_bytes > self.patience.header_bytes_max:
            self._end(_HEADERS_TOO_LARGE)
        elif self._head_timer is None:
            self._start_head_timer()

    def _head_is_open(self) -> bool:
        """No request is under way, or the next one has begun and its headers are not complete."""
        scope, cycle = self._now()
        return scope is None or "method" not in scope or cycle is None or cycle.response_complete

    def _now(self) -> tuple[Any, Any]:
        """uvicorn's types do not say that both are None before the first request."""
        return self.scope, self.cycle

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.patience.header_s_max, self._head_is_late)

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.transport.is_closing() or not self._head_is_open():
            return
        if self.flow.read_paused:  # it is us who do not read
            self._start_head_timer()
        elif (cycle := self._now()[1]) is not None and not cycle.response_complete:
            self.transport.abort()  # in the middle of an answer nothing else can be said
        else:
            self._end(_TOO_SLOW)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.patience.write_s_max, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._write_timer = None
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._end(_MALFORMED)

    def _end(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()
        # whoever does not take even that is not waited for
        self.loop.call_later(self.patience.header_s_max, self.transport.abort)


class Server(uvicorn.Server):
    """uvicorn that says when it is ready and when it was told to stop, and leaves the process alive.

    Told to stop, it first sends its clients elsewhere: streams end, and every answer closes its connection. A client
    whose idle connection were just closed could be sending its next request at that very moment.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        ready: Callable[[], Awaitable[None]],
        leaving: Callable[[], None],
        drain_s: float,
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._leaving = leaving
        self._drain_s = drain_s
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # every request's scope carries a copy of this state
        self.lifespan.state[STOPPING] = self._stopping
        await super().startup(sockets=sockets)
        await self._ready()

    def stop(self, *, at_once: bool = False) -> None:
        """A second time, or at once: nobody is waited for who has not begun a request."""
        first = not self._stopping.is_set()
        if first:
            self._stopping.set()
            self._leaving()
            self._close_with_the_next_answer()
        if first and self._drain_s and not at_once:
            self._loop.call_later(self._drain_s, self._exit)
        else:
            self._exit()

    def _exit(self) -> None:
        self.should_exit = True

    def _close_with_the_next_answer(self) -> None:
        self.config.encoded_headers.append(_CLOSE)
        self.server_state.default_headers = [*self.server_state.default_headers, _CLOSE]
        for connection in self.server_state.connections:
            cycle: Any = connection.cycle  # type: ignore[union-attr]
            if cycle is not None and not cycle.response_complete:
                cycle.keep_alive = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        by_hand = sig == signal.SIGINT
        if self.should_exit and by_hand:
            self.force_exit = True
        self._loop.call_soon_threadsafe(functools.partial(self.stop, at_once=by_hand))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does, but without raising them again afterwards: there is still a database to close."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


async def run_server(
    app: App,
    *,
    host: str,
    port: int,
    ready: Ready | None = None,
    leaving: Callable[[], None] = lambda: None,
    stop: asyncio.Event | None = None,
    patience: Patience | None = None,
) -> None:
    """Serves until SIGTERM, SIGINT or `stop`. `ready` is told the address once it can be connected to.

    `leaving` is called once, at the word to stop, while everything is still answered.
    """
    listener = listen(host, port)
    address = address_of(listener)

    async def tell_ready() -> None:
        answer = ready(address) if ready is not None else None
        if answer is not None:
            await answer

    patience = with_room_for_connections(patience or Patience())
    server = Server(_config(app, patience), ready=tell_ready, leaving=leaving, drain_s=patience.drain_s)
    stopper = asyncio.create_task(_stop_with(server, stop)) if stop is not None else None
    try:
        await server.serve(sockets=[listener])
    finally:
        listener.close()
        if stopper is not None:
            stopper.cancel()


def with_room_for_connections(patience: Patience) -> Patience:
    """A connection is an open file: asks the system for as many as may be needed, and is content with what there is."""
    wanted = patience.connections_max + FILES_OF_OURS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    else:
        soft = wanted
    return dataclasses.replace(patience, connections_max=max(1, min(patience.connections_max, soft - FILES_OF_OURS)))


async def _stop_with(server: Server, stop: asyncio.Event) -> None:
    await stop.wait()
    server.stop()


def _config(app: Any, patience: Patience) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=type("Protocol", (Protocol,), {"patience": patience}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=patience.idle_s_max,  # type: ignore[arg-type]
        timeout_graceful_shutdown=patience.stop_s_max,  # type: ignore[arg-type]
    )


# ── the address ───────────────────────────────────────────────────────────────────────────────────


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. What is wrong with the address is said by the name of its setting."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidSetting(
            "VIRTFLOW_HOST", host, expected=f"an address of this machine ({getattr(error, 'strerror', error)})"
        ) from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise _why_not(host, port, error) from error
    listener.setblocking(False)
    return listener


def _why_not(host: str, port: int, error: OSError) -> InvalidSetting:
    if error.errno == errno.EADDRINUSE:
        return InvalidSetting("VIRTFLOW_PORT", str(port), expected="a free port: another program listens on this one")
    if error.errno in (errno.EACCES, errno.EPERM):
        return InvalidSetting("VIRTFLOW_PORT", str(port), expected="a port from 1024 on: lower ones are for root")
    if error.errno == errno.EADDRNOTAVAIL:
        return InvalidSetting(
            "VIRTFLOW_HOST", host, expected="an address of this machine, such as 127.0.0.1 or 0.0.0.0"
        )
    return InvalidSetting("VIRTFLOW_HOST", host, expected=f"an address to listen on ({error.strerror})")


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
