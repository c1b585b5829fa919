"""Outlets, as rows: how far each was told of events."""

from collections.abc import Sequence

from virtflow.model.outlet import Outlet, OutletMove
from virtflow.store.session import Reader, Row, Session


def outlet_from_row(row: Row) -> Outlet:
    return Outlet(
        name=row[0],
        kind=row[1],
        cursor=row[2],
        enabled=bool(row[3]),
        error=row[4],
        created_ms=row[5],
        updated_ms=row[6],
        waiting_since_ms=row[7],
        failing_since_ms=row[8],
        version=row[9],
    )


class OutletReads:
    _near: Reader
    _far: Reader

    async def outlets(self) -> list[Outlet]:
        return [outlet_from_row(row) for row in await self._far.rows("outlets")]

    async def outlet(self, name: str) -> Outlet | None:
        rows = await self._near.rows("outlet_by_name", name)
        return outlet_from_row(rows[0]) if rows else None


class OutletWrites:
    _session: Session

    async def add_outlets(self, outlets: Sequence[Outlet]) -> None:
        await self._session.each("add_outlet", [_columns(outlet) for outlet in outlets])

    async def move_outlets(self, moves: Sequence[OutletMove]) -> frozenset[str]:
        rows = [(move.now, move.at_ms, move.was, move.name) for move in moves]
        return frozenset(row[-1] for row in await self._session.each("move_outlet", rows))

    async def place_outlet(self, name: str, *, cursor: int, at_ms: int) -> None:
        await self._session.rows("place_outlet", cursor, at_ms, name)

    async def mark_outlet(self, name: str, *, error: str, at_ms: int) -> None:
        await self._session.rows("mark_outlet", error, at_ms, name)

    async def leave_outlet(self, name: str, *, was: int, now: int) -> int | None:
        rows = await self._session.rows("leave_outlet", now, was, name)
        return int(rows[0][0]) if rows else None

    async def enable_outlet(self, name: str, *, enabled: bool, at_ms: int) -> None:
        await self._session.rows("enable_outlet", enabled, at_ms, name)

    async def remove_outlet(self, name: str) -> None:
        await self._session.rows("remove_outlet", name)


def _columns(outlet: Outlet) -> Row:
    return (
        outlet.kind,
        outlet.cursor,
        outlet.enabled,
        outlet.error,
        outlet.created_ms,
        outlet.updated_ms,
        outlet.name,
    )
