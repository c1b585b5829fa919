"""For whoever watches this process: probes and metrics."""

from typing import Literal

import msgspec

from virtflow.api.operation import Call, Noun, ok
from virtflow.api.query import NoQuery
from virtflow.control.orders import Rendered
from virtflow.model.views import HealthReport

health = Noun("health")

Role = Literal["api", "scheduler", "relay"]
Holding = Literal["leading", "following"]

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class HealthOut(msgspec.Struct, frozen=True, kw_only=True):
    """Whether all is well, and part by part what is not."""

    ok: bool
    #: part -> "ok", or what is wrong
    parts: dict[str, str]
    #: what this process does
    roles: list[Role]
    #: office -> whether this process holds it; those of its roles
    offices: dict[str, Holding]
    #: so many events of others are not in this process's picture of the fleet yet
    behind: int | None


def _shown(report: HealthReport) -> Rendered:
    return ok(msgspec.convert(report, HealthOut, from_attributes=True), status=200 if report.ok else 503)


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
