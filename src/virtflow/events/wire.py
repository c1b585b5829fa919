"""Connections to receivers: to the addresses that the guard let pass and nowhere else, with Host and SNI kept."""

import asyncio
import contextlib
import ipaddress
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

import httpcore

from virtflow.events.guard import Guard
from virtflow.model.errors import Unavailable
from virtflow.model.limits import WEBHOOK_LANES_MAX
from virtflow.model.url import Url

#: an idle connection is kept for so long: receivers close theirs after some seconds, and that would look like a failure
IDLE_S_MAX = 3.0
#: so long for one address of several; all together have the time of the post
CONNECT_S_MAX = 4.0
#: httpcore's words for the last moments at which a request can be kept: what has a head and no body is none
_LEAVING = frozenset({"http11.send_request_headers.started", "http11.send_request_body.started"})


class WireFailed(Unavailable):
    code = "connection_failed"


class Kept(Exception):
    """It did not leave the house."""


class Answer:
    """Its status is here, its body is still on its way."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response
        self.status = int(response.status)
        self.retry_after = next(
            (value.decode("latin-1").strip() for name, value in response.headers if name.lower() == b"retry-after"), ""
        )

    async def drain(self, bytes_max: int) -> None:
        """Reads the rest, or so much of it."""
        seen = 0
        with _in_our_words():
            async for chunk in self._response.aiter_stream():
                seen += len(chunk)
                if seen > bytes_max:
                    return


class Wires:
    """Connections by line; those of one line are nobody else's."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._pools: dict[str, httpcore.AsyncConnectionPool] = {}
        #: how many may be in use. Not left to the pool: what is broken off while it ends stays in use for ever there
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._tls: ssl.SSLContext | None = None
        self._reading: asyncio.Future[ssl.SSLContext] | None = None

    @contextlib.asynccontextmanager
    async def exchange(
        self,
        line: str,
        url: Url,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        *,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> AsyncIterator[Answer]:
        """The answer as soon as its status is there. What is left unread of it is cut off at the end of the block."""

        async def watch(step: str, _about: object) -> None:
            if step in _LEAVING and not may_leave():
                raise Kept

        with _in_our_words():
            pool = await self._pool(line, url.scheme)
            turn = self._turns.setdefault(line, asyncio.Semaphore(WEBHOOK_LANES_MAX))
            asked = pool.stream(
                "POST",
                httpcore.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
                headers=[(name.encode(), value.encode()) for name, value in headers],
                content=body,
                extensions={"timeout": {}, "trace": watch, **_sni(url)},
            )
            async with turn, asked as response:
                yield Answer(response)

    async def _pool(self, line: str, scheme: str) -> httpcore.AsyncConnectionPool:
        if scheme == "https" and self._tls is None:
            # reads all the authorities, which takes its time: whoever gives up meanwhile leaves it to the next
            self._reading = self._reading or asyncio.ensure_future(asyncio.to_thread(ssl.create_default_context))
            self._tls = await asyncio.shield(self._reading)
        if line not in self._pools:
            # no proxy is named, so none is used: httpcore reads no environment
            self._pools[line] = httpcore.AsyncConnectionPool(
                ssl_context=self._tls,
                max_connections=None,
                keepalive_expiry=IDLE_S_MAX,
                network_backend=_Guarded(self._guard),
            )
        return self._pools[line]

    async def forget(self, line: str) -> None:
        self._turns.pop(line, None)
        pool = self._pools.pop(line, None)
        if pool is not None:
            await pool.aclose()

    async def close(self) -> None:
        for line in list(self._pools):
            await self.forget(line)


def _sni(url: Url) -> dict[str, Any]:
    return {} if url.address is not None else {"sni_hostname": url.host}


class _Guarded(httpcore.AsyncNetworkBackend):
    """Connects by the addresses that the guard gave for this very connection."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # httpcore's own
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in await self._guard.addresses(_url_of(host, port)):
            try:
                stream = await self._network.connect_tcp(address, port, CONNECT_S_MAX, local_address, socket_options)
                return _Stream(stream)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError("no address")

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        raise httpcore.UnsupportedProtocol("receivers have no files")

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that is closed too when time is up in the middle of TLS's greetings, which httpcore forgets."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self.read = stream.read  # type: ignore[method-assign]
        self.write = stream.write  # type: ignore[method-assign]
        self.aclose = stream.aclose  # type: ignore[method-assign]
        self.get_extra_info = stream.get_extra_info  # type: ignore[method-assign]

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # httpcore's own
    ) -> httpcore.AsyncNetworkStream:
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._stream.aclose()
            raise


def _url_of(host: str, port: int) -> Url:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    return Url(scheme="http", host=host, port=port, target="/", address=address)


@contextlib.contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ssl.SSLError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise  # our own deadline
        if _is_about_tls(error):
            raise WireFailed("its certificate is not to be trusted, or it speaks no TLS", code="tls_failed") from error
        if isinstance(error, httpcore.ProtocolError) and "disconnected" not in str(error):
            raise WireFailed("what it answered is not HTTP", code="bad_answer") from error
        raise WireFailed(f"the connection failed: {_cause(error)}") from error


def _is_about_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _cause(error: BaseException) -> str:
    """'connection refused' instead of what three libraries made of it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno).lower()
        cause = cause.__cause__ or cause.__context__
    return "it was closed before an answer came"
