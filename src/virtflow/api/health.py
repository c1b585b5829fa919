"""For whoever watches this process: probes and metrics."""

from typing import Literal

import msgspec

from virtflow.api.operation import Call, Noun, ok
from virtflow.api.query import NoQuery
from virtflow.control.orders import Rendered
from virtflow.model.health import HealthReport, Unwell
from virtflow.model.times import time_text

health = Noun("health")

Role = Literal["api", "scheduler", "relay"]
Holding = Literal["leading", "following"]

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


Condition = Literal["ok", "degraded", "failing"]
Illness = Literal["degraded", "failing"]


class UnwellOut(msgspec.Struct, frozen=True, kw_only=True):
    """A part that does not work as it should."""

    part: str
    #: degraded: work goes on without it. failing: it does not
    status: Illness
    since: str
    cause: str
    #: what to do about it
    remedy: str


class HealthOut(msgspec.Struct, frozen=True, kw_only=True):
    """Whether all is well, and part by part what is not."""

    #: false when something is failing
    ok: bool
    #: that of the part that is worst off
    status: Condition
    #: part -> "ok", or what is wrong
    parts: dict[str, str]
    unwell: list[UnwellOut]
    #: what this process does
    roles: list[Role]
    #: office -> whether this process holds it; those of its roles
    offices: dict[str, Holding]
    #: so many events of others are not in this process's picture of the fleet yet
    behind: int | None


def unwell_out(one: Unwell) -> UnwellOut:
    status = msgspec.convert(one.status, Illness)
    return UnwellOut(part=one.part, status=status, since=time_text(one.since_ms), cause=one.cause, remedy=one.remedy)


def _shown(report: HealthReport) -> Rendered:
    shown = HealthOut(
        ok=report.ok,
        status=report.status.value,
        parts=report.parts,
        unwell=[unwell_out(one) for one in report.unwell],
        roles=msgspec.convert(report.roles, list[Role]),
        offices=msgspec.convert(report.offices, dict[str, Holding]),
        behind=report.behind,
    )
    return ok(shown, status=200 if report.ok else 503)


@health.get("/healthz", answers={200: HealthOut, 503: HealthOut})
async def get_health(call: Call[None, NoQuery]) -> Rendered:
    """Say whether this process works. Red: it will not mend itself, restart it."""
    return _shown(await call.house.health.check())


@health.get("/readyz", answers={200: HealthOut, 503: HealthOut})
async def get_readiness(call: Call[None, NoQuery]) -> Rendered:
    """Say whether this process may be sent work."""
    return _shown(await call.house.health.ready())


@health.get("/metrics", answers={200: PROMETHEUS})
async def get_metrics(call: Call[None, NoQuery]) -> Rendered:
    """Read the metrics, as Prometheus does."""
    return 200, await call.house.metrics.text(), (("content-type", PROMETHEUS),)
