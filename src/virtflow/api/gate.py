"""The outermost layer: who may come in, which way they go, and that every failure leaves as a problem document."""

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

import structlog

from virtflow.api.body import Disconnected, Message, Receive, has_body, linger
from virtflow.api.errors import Internal, NotServedHere, Unauthorized, WrongHost, render_problem, status_of
from virtflow.api.exchange import Exchange, Scope, Send
from virtflow.api.router import Router
from virtflow.api.settings import API, ApiSettings
from virtflow.control.orders import Rendered
from virtflow.control.tracing import Span, Tracer
from virtflow.model.errors import Unavailable, VirtflowError

Hot = Callable[[Exchange], Awaitable[Rendered]]
Observe = Callable[[str, int, float], None]

#: probes of orchestrators carry no token and come often
PROBES = frozenset({"/healthz", "/readyz"})
#: what every process serves, whatever its roles
WATCHED = PROBES | {"/metrics"}
_CLOSE = ((b"connection", b"close"),)


class Gate:
    """An ASGI app. `posts` and `gets` are the hot routes; everything else goes to the router."""

    def __init__(
        self,
        router: Router,
        *,
        posts: Mapping[str, Hot],
        gets: Mapping[str, Hot],
        settings: ApiSettings,
        observe: Observe,
        tracer: Tracer | None = None,
    ) -> None:
        self._router = router
        self._posts = posts
        self._gets = gets
        self._observe = observe
        self._tracer = tracer
        self._new_request_id = settings.new_request_id
        self._roles = settings.roles
        self._serves_all = API in settings.roles
        self._linger_s_max = settings.linger_s_max
        self._hosts = frozenset(host.lower().encode() for host in settings.allowed_hosts)
        self._token = b"Bearer " + settings.token.reveal().encode() if settings.token else None
        self._log = structlog.get_logger("virtflow.api").bind()
        # asked once: even a line that is not written costs more than finding the route
        self._notes_hot = self._log.is_enabled_for(logging.DEBUG)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            if scope["method"] == "HEAD":
                scope, send = _without_body(scope, send)
            await self._serve(Exchange(scope, receive, send, new_request_id=self._new_request_id))
        else:
            await send({"type": "websocket.close"})

    async def _serve(self, exchange: Exchange) -> None:
        started, parent = time.monotonic(), ""
        try:
            self._admit(exchange)
            hot = self._hot(exchange)
            if hot is not None:
                exchange.is_hot = True
                if self._tracer is not None and exchange.method == "POST":
                    exchange.trace, parent = self._tracer.begin(exchange.headers.get(b"traceparent"))
                await exchange.answer(await hot(exchange))
            else:
                await self._router.answer(exchange)
        except Disconnected:
            exchange.status = 499  # nobody is left to read it; for the log and the metrics alone
        except VirtflowError as error:
            await self._refuse(exchange, error)
        except MemoryError as error:
            await self._shed(exchange, error)
        except Exception as error:
            await self._confess(exchange, error)
        ended = time.monotonic()
        seconds = ended - started
        if exchange.trace and self._tracer is not None:
            self._tracer.write(_span_of(exchange, parent, started, ended))
        self._observe(exchange.route, exchange.status, seconds)
        self._note(exchange, seconds)

    def _hot(self, exchange: Exchange) -> Hot | None:
        if exchange.method == "POST":
            return self._posts.get(exchange.path)
        if exchange.method == "GET":
            folder, _, rest = exchange.path[1:].partition("/")
            return self._gets.get(folder) if rest and "/" not in rest else None
        return None

    # ── who may come in ───────────────────────────────────────────────────────────────────────────

    def _admit(self, exchange: Exchange) -> None:
        if self._hosts and not self._is_us(exchange.headers.get(b"host", b"")):
            raise WrongHost("the Host header names somebody else", remedy="use a name that this service is known by")
        if self._token is not None and exchange.path not in PROBES:
            self._check_token(exchange.headers.get(b"authorization", b""), self._token)
        if not self._serves_all and exchange.path not in WATCHED:
            raise NotServedHere(
                f"this process does not serve the API; it has the role {' and '.join(sorted(self._roles))}",
                remedy="ask a process that was started with --role api; here are /healthz, /readyz and /metrics alone",
            )

    def _check_token(self, given: bytes, token: bytes) -> None:
        # the same time for every wrong token; the scheme's name may be written in any case
        if not hmac.compare_digest(b"Bearer " + given[7:] if given[:7].lower() == b"bearer " else b"", token):
            raise Unauthorized("this needs a token", remedy="send Authorization: Bearer and the token")

    def _is_us(self, host: bytes) -> bool:
        name, _, port = host.lower().rpartition(b":")
        return (name if port.isdigit() and name else host.lower()) in self._hosts

    # ── failures ──────────────────────────────────────────────────────────────────────────────────

    async def _refuse(self, exchange: Exchange, error: VirtflowError) -> None:
        if status_of(error) >= 500 and not isinstance(error, Internal):
            self._log.warning(
                "request.failed", request_id=exchange.request_id.decode(), route=exchange.route, error=error.detail
            )
        rendered = render_problem(error, path=exchange.shown_path)
        if exchange.body_taken or not has_body(exchange.headers):
            await exchange.answer(rendered)
        else:
            await self._refuse_early(exchange, rendered)

    async def _refuse_early(self, exchange: Exchange, rendered: Rendered) -> None:
        """The answer while the body is still coming: whole, then the rest is thrown away, then the line is cut."""
        send = exchange.send

        async def send_open(message: Message) -> None:
            await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

        exchange.send = send_open
        await exchange.answer(rendered, _CLOSE)
        await linger(exchange.receive, s_max=self._linger_s_max)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _shed(self, exchange: Exchange, error: MemoryError) -> None:
        """No memory for this one, which is over and has given back what it held. The next may be smaller."""
        if exchange.status:
            raise error  # the answer has begun: the server breaks the line off
        await self._refuse(
            exchange,
            Unavailable("there is not enough memory for this now", remedy="ask for less, or again in a moment"),
        )

    async def _confess(self, exchange: Exchange, error: Exception) -> None:
        """A defect of ours. The log has everything, the answer only the id to find it by."""
        request_id = exchange.request_id.decode()
        self._log.error("request.broken", request_id=request_id, route=exchange.route, exc_info=error)
        if exchange.status:
            raise error  # the answer has begun: the server breaks the line off, so that nobody takes it for whole
        await self._refuse(
            exchange, Internal(f"a defect of the service, logged as {request_id}", remedy="report it with that id")
        )

    def _note(self, exchange: Exchange, seconds: float) -> None:
        often = exchange.is_hot or exchange.path in PROBES
        if often and not self._notes_hot:
            return
        (self._log.debug if often else self._log.info)(
            "request",
            route=exchange.route,
            status=exchange.status,
            ms=round(seconds * 1000, 3),
            request_id=exchange.request_id.decode(),
        )


def _span_of(exchange: Exchange, parent: str, began_s: float, ended_s: float) -> Span:
    attributes: dict[str, str | int] = {
        "http.request.method": exchange.method,
        "http.route": exchange.route,
        "http.response.status_code": exchange.status,
        "virtflow.request_id": exchange.request_id.decode(),
    }
    error = f"answered {exchange.status}" if exchange.status >= 500 else ""
    return Span("accept", "server", exchange.trace, parent, began_s, ended_s, attributes, error)


async def _live(receive: Receive, send: Send) -> None:
    """We are started and stopped by others; a server that asks is told that all is well."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _without_body(scope: Scope, send: Send) -> tuple[Scope, Send]:
    """HEAD is GET whose body stays here."""

    async def send_head(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return {**scope, "method": "GET", "virtflow.head": True}, send_head
