"""Receiving a body: its size, its time and its type are bounded before anything looks at it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from virtflow.api.errors import BadHeader, TooLarge, TooSlow, UnexpectedBody, WrongMediaType
from virtflow.model.errors import Busy

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Headers = Mapping[bytes, bytes]

JSON = ("application/json",)
LINGER_BYTES = 64 * 2**20


class Disconnected(Exception):
    """The client went away before its request was complete."""


class Bodies:
    """All bodies on their way in, with one timer for all of them: a timer each costs more than parsing."""

    def __init__(self, *, bytes_max: int, total_bytes_max: int, s_max: float) -> None:
        self._bytes_max = bytes_max
        self._total_bytes_max = total_bytes_max
        self._s_max = s_max
        self._held = 0
        #: reader -> when its time is up; in that order, because all get the same time
        self._deadlines: dict[asyncio.Task[Any], float] = {}
        self._too_slow: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, headers: Headers, receive: Receive, *, types: tuple[str, ...] = JSON) -> bytes:
        """The whole body, or the reason why not."""
        _check_type(headers, types)
        declared = headers.get(b"content-length")
        if declared is not None and not declared.isdigit():
            raise BadHeader("Content-Length must be a number")
        if declared is not None and int(declared) > self._bytes_max:
            raise self._too_large()
        reader: Any = asyncio.current_task()
        self._start_clock(reader)
        try:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            body: bytes = message.get("body", b"")
            if message.get("more_body", False):
                body = await self._read_on(body, receive)
        except asyncio.CancelledError:
            if reader not in self._too_slow or reader.uncancel() > 0:
                raise  # somebody else wants us to stop
            raise TooSlow(f"the body took longer than {self._s_max:g} s", remedy="send it faster") from None
        finally:
            self._stop_clock(reader)
        if len(body) > self._bytes_max:
            raise self._too_large()
        return body

    async def _read_on(self, first: bytes, receive: Receive) -> bytes:
        parts, size, more = [first], len(first), True
        self._held += size
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                part = message.get("body", b"")
                parts.append(part)
                size += len(part)
                self._held += len(part)
                if size > self._bytes_max:
                    raise self._too_large()
                if self._held > self._total_bytes_max:
                    raise Busy("too many large bodies at once")
                more = message.get("more_body", False)
        finally:
            self._held -= size
        return b"".join(parts)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body is larger than {self._bytes_max} bytes", remedy="send it in several requests")

    # ── the clock ─────────────────────────────────────────────────────────────────────────────────

    def _start_clock(self, reader: asyncio.Task[Any]) -> None:
        loop = reader.get_loop()
        self._deadlines[reader] = loop.time() + self._s_max
        if self._timer is None:
            self._timer = loop.call_later(self._s_max, self._ring, loop)

    def _stop_clock(self, reader: asyncio.Task[Any]) -> None:
        self._deadlines.pop(reader, None)
        self._too_slow.discard(reader)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ends those whose time is up; rings again for the next one, if any is left."""
        self._timer = None
        now = loop.time()
        for reader, deadline in list(self._deadlines.items()):
            if deadline > now:
                self._timer = loop.call_at(deadline, self._ring, loop)
                return
            del self._deadlines[reader]
            self._too_slow.add(reader)
            reader.cancel()


def has_body(headers: Headers) -> bool:
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def refuse_body(headers: Headers) -> None:
    if has_body(headers):
        raise UnexpectedBody("this call takes no body", remedy="leave the body out")


def _check_type(headers: Headers, types: tuple[str, ...]) -> None:
    if b"content-encoding" in headers and headers[b"content-encoding"].lower() != b"identity":
        raise WrongMediaType("the body is compressed", remedy="send it as it is, without Content-Encoding")
    given = headers.get(b"content-type", b"")
    if given == b"application/json":
        return
    kind, *parameters = (part.strip() for part in given.decode("latin-1").lower().split(";"))
    if kind not in types:
        shown = f"not {kind[:80]}" if kind else "and the request names none"
        raise WrongMediaType(f"the body must be {' or '.join(types)}, {shown}", remedy=f"send Content-Type: {types[0]}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "charset" and value.strip('"') not in ("utf-8", "utf8"):
            raise WrongMediaType(f"the body must be UTF-8, not {value[:40]}", remedy="send UTF-8")


async def linger(receive: Receive, *, s_max: float) -> None:
    """Take the rest of a refused body and throw it away, for a moment: a client that is cut off in the middle of
    sending would never read why."""
    taken = 0
    try:
        async with asyncio.timeout(s_max):
            while taken < LINGER_BYTES:
                message = await receive()
                taken += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def single(headers: Headers, name: bytes) -> str | None:
    """A header as text. What is not visible ASCII is refused, since it will be stored, logged or compared."""
    value = headers.get(name)
    if value is None:
        return None
    text = value.decode("latin-1")
    if not (text.isascii() and text.isprintable()):
        raise BadHeader(f"{name.decode()} must be visible ASCII characters", remedy="send another value")
    return text
