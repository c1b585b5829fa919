"""How fresh the knowledge is that came from elsewhere; shown beside hosts and in the fleet."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from virtflow.model.times import time_or_none
from virtflow.model.views import InventoryReport, SkippedRecord


class InventoryOut(msgspec.Struct, frozen=True, kw_only=True):
    """One source of hosts."""

    source: str
    location: str
    state: Literal["fresh", "stale", "never"]
    last_success_at: str | None
    age_s: float | None
    last_error: str | None
    hosts: int
    skipped: list[SkippedRecord]
    skipped_total: int


def inventories_out(reports: Sequence[InventoryReport]) -> list[InventoryOut]:
    return [
        InventoryOut(
            source=report.source,
            location=report.location,
            state=report.state,  # type: ignore[arg-type]
            last_success_at=time_or_none(report.last_success_ms),
            age_s=report.age_s,
            last_error=report.last_error,
            hosts=report.hosts,
            skipped=list(report.skipped),
            skipped_total=report.skipped_total,
        )
        for report in reports
    ]
