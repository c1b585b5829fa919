"""One request and its answer, as every layer of the API sees them."""

import re
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

from virtflow.api.body import Message, Receive
from virtflow.control.orders import Cause, Rendered

Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]

UNMATCHED = "unmatched"
JSON_TYPE = (("content-type", "application/json"),)

_GIVEN_ID = re.compile(rb"[!-~]{1,64}")


class Exchange:
    """Mutable on purpose: it is filled on the way in and read on the way out."""

    __slots__ = (
        "body_taken", "headers", "is_hot", "method", "path", "receive", "request_id", "route", "scope", "send",
        "status", "trace",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, new_request_id: Callable[[], str]) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self.receive = receive
        self.send = send
        given = self.headers.get(b"x-request-id")
        self.request_id = given if given and _GIVEN_ID.fullmatch(given) else new_request_id().encode()
        #: the template, for metrics: few values, whatever is asked for
        self.route = UNMATCHED
        self.status = 0
        #: nothing of the request is left on the line
        self.body_taken = False
        #: asked thousands of times a second: logged at the lower level
        self.is_hot = False
        #: the `traceparent` of what is done for it; empty where no trace is made
        self.trace = ""

    @property
    def cause(self) -> Cause:
        return Cause(self.request_id.decode(), self.trace)

    @property
    def shown_path(self) -> str:
        raw = self.scope.get("raw_path")
        return raw.decode("latin-1") if raw else urllib.parse.quote(self.path)

    async def answer(self, rendered: Rendered, extra: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Sends a whole answer."""
        status, body, headers = rendered
        self.status = status
        raw: RawHeaders = [
            (b"x-request-id", self.request_id),
            (b"x-content-type-options", b"nosniff"),
            *[(name.encode(), value.encode("latin-1")) for name, value in headers],
            *extra,
        ]
        if status != 204:  # which has none by definition
            raw.append((b"content-length", b"%d" % len(body)))
        await self.send({"type": "http.response.start", "status": status, "headers": raw})
        await self.send({"type": "http.response.body", "body": body})
