"""Traces leave by OTLP over HTTP, with OpenTelemetry's own library (extra `otel`)."""

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from typing import Any

import structlog

from virtflow import __version__
from virtflow.control.tracing import Span, child_of, new_trace, read_traceparent
from virtflow.model.errors import InvalidSetting

log = structlog.get_logger("virtflow")

#: what is left is sent for so long at the end
FLUSH_S_MAX = 2.0
EXPORT_S_MAX = 5.0
SPANS_KEPT_MAX = 8_192
EXPORT_EVERY_S = 1.0


class OtelTracer:
    """Makes finished spans only, and lets a thread of the library send them.

    `share`: so many of those requests are traced whose caller does not say it.
    """

    def __init__(self, endpoint: str, *, share: float, process: str, roles: Sequence[str]) -> None:
        try:
            from opentelemetry import trace as api
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk import trace as sdk
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        except ImportError as error:
            raise InvalidSetting(
                "VIRTFLOW_OTEL_ENDPOINT", endpoint, expected="traces need the extra: pip install 'virtflow[otel]'"
            ) from error
        # the library says each failure at each try; we say each change of state
        for library in ("opentelemetry", "urllib3"):
            logging.getLogger(library).setLevel(logging.CRITICAL + 1)
        self._api, self._sdk = api, sdk
        self._share = share
        self._resource = Resource(
            {
                "service.name": "virtflow",
                "service.version": __version__,
                "service.instance.id": process,
                "virtflow.roles": ",".join(roles),
            }
        )
        self._scope = InstrumentationScope("virtflow", __version__)
        self._kinds = {
            "server": api.SpanKind.SERVER,
            "client": api.SpanKind.CLIENT,
            "internal": api.SpanKind.INTERNAL,
            "producer": api.SpanKind.PRODUCER,
            "consumer": api.SpanKind.CONSUMER,
        }
        self._exporter = _told_exporter(
            OTLPSpanExporter(endpoint=_traces_url(endpoint), timeout=EXPORT_S_MAX), endpoint
        )
        self._processor: Any = BatchSpanProcessor(
            self._exporter,
            max_queue_size=SPANS_KEPT_MAX,
            schedule_delay_millis=EXPORT_EVERY_S * 1000,
        )

    @property
    def state(self) -> str:
        return "ok" if self._exporter.arrives else "nobody takes them; they are dropped"

    def begin(self, given: bytes | None) -> tuple[str, str]:
        caller = read_traceparent(given)
        if caller is not None:
            parent, is_wanted = caller
            return (child_of(parent), parent) if is_wanted else ("", "")
        return (new_trace(), "") if self._share >= 1 or random.random() < self._share else ("", "")

    def write(self, span: Span) -> None:
        to_wall_ns = time.time_ns() - time.monotonic_ns()
        status = self._api.Status(self._api.StatusCode.ERROR, span.error) if span.error else self._api.Status()
        self._processor.on_end(
            self._sdk.ReadableSpan(
                name=span.name,
                context=self._context(span.trace, is_remote=False),
                parent=self._context(span.parent, is_remote=True) if span.parent else None,
                resource=self._resource,
                attributes=span.attributes,
                kind=self._kinds[span.kind],
                status=status,
                start_time=int(span.began_s * 1e9) + to_wall_ns,
                end_time=int(span.ended_s * 1e9) + to_wall_ns,
                instrumentation_scope=self._scope,
            )
        )

    def _context(self, trace: str, *, is_remote: bool) -> Any:
        _, trace_id, span_id, _ = trace.split("-")
        return self._api.SpanContext(
            int(trace_id, 16), int(span_id, 16), is_remote=is_remote, trace_flags=self._api.TraceFlags(1)
        )

    async def close(self) -> None:
        """In a thread that nobody waits for longer: the library may hang in a dead connection."""
        flushing = asyncio.get_running_loop().run_in_executor(None, self._processor.force_flush, FLUSH_S_MAX * 1000)
        await asyncio.wait({flushing}, timeout=FLUSH_S_MAX)


def _traces_url(endpoint: str) -> str:
    """As the standard has it: the endpoint is the base of all signals."""
    return endpoint if endpoint.rstrip("/").endswith("/v1/traces") else f"{endpoint.rstrip('/')}/v1/traces"


def _told_exporter(exporter: Any, endpoint: str) -> Any:
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Told(SpanExporter):
        """One line when traces begin to be lost, and one when they arrive again."""

        arrives = True

        def export(self, spans: Any) -> Any:
            result = exporter.export(spans)
            arrives = result is SpanExportResult.SUCCESS
            if arrives != self.arrives:
                self.arrives = arrives
                if arrives:
                    log.info("traces.arrive", endpoint=endpoint)
                else:
                    log.warning("traces.lost", endpoint=endpoint)
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    return Told()
