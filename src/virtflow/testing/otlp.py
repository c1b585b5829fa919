"""A receiver of traces: takes what a tracer sends by OTLP over HTTP, and shows it as one reads it."""

import contextlib
import http.server
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


class ReceivedSpan(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    began_ns: int
    ended_ns: int
    #: the process that sent it, and its roles
    process: str
    roles: str
    is_error: bool
    attributes: dict[str, Any]


class Receiver:
    """Everything that arrived. `is_away`: answers 503 instead."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.is_away = False
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of_trace(self, trace_id: str) -> list[ReceivedSpan]:
        return sorted((span for span in self.spans if span.trace_id == trace_id), key=lambda span: span.began_ns)

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for of_resource in request.resource_spans:
            resource = _attributes(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                self.spans += [_received(span, resource) for span in of_scope.spans]


def _received(span: Any, resource: dict[str, Any]) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        kind=_KINDS.get(span.kind, str(span.kind)),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        began_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        process=str(resource.get("service.instance.id", "")),
        roles=str(resource.get("virtflow.roles", "")),
        is_error=span.status.code == 2,
        attributes=_attributes(span.attributes),
    )


def _attributes(pairs: Sequence[Any]) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def drawn(spans: Sequence[ReceivedSpan]) -> str:
    """A trace as text: who did what, when it began and how long it took, indented below what it was done for."""
    known = {span.span_id for span in spans}
    first_ns = min(span.began_ns for span in spans)

    def lines(parent: str, depth: int) -> Iterator[str]:
        for span in spans:
            if span.parent_id == parent or (depth == 0 and span.parent_id not in known):
                name = "  " * depth + span.name
                took_ms, at_ms = (span.ended_ns - span.began_ns) / 1e6, (span.began_ns - first_ns) / 1e6
                yield f"{name:<14} {span.roles:<22} at {at_ms:8.2f} ms   took {took_ms:8.2f} ms"
                yield from lines(span.span_id, depth + 1)

    return "\n".join(lines("", 0))


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    """Listening inside the block, on `receiver.url`."""
    made = Receiver()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if not made.is_away and self.path == "/v1/traces":
                made.take(body)
            self.send_response(503 if made.is_away else 200 if self.path == "/v1/traces" else 404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Tests say what they have to say themselves."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
