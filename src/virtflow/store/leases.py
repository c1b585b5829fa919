"""Leases, as rows: changed by compare-and-set, on a connection that waits for nobody's work."""

import asyncio
from typing import Protocol

from virtflow.model.lease import Lease
from virtflow.store.session import Reader, Row


class Line(Reader, Protocol):
    """Single statements, each its own transaction, on a session that others can see."""

    def end(self) -> asyncio.Event:
        """Set when the session of the last statement is gone."""
        ...

    def close(self) -> None: ...


def lease_from_row(row: Row) -> Lease:
    return Lease(office=row[0], holder=row[1], term=row[2], beat=row[3], is_attended=bool(row[4]), since_ms=row[5])


class Leases:
    _line: Line
    _far: Reader

    async def leases(self) -> list[Lease]:
        return [lease_from_row(row) for row in await self._far.rows("leases")]

    async def lease(self, office: str) -> Lease | None:
        return await self._one("lease_by_name", office)

    async def take_lease(self, office: str, *, holder: str, seen: Lease | None) -> Lease | None:
        if seen is None:
            return await self._one("add_lease", office, holder)
        return await self._one("take_lease", holder, office, seen.holder, seen.term, seen.beat)

    async def renew_lease(self, lease: Lease) -> Lease | None:
        return await self._one("renew_lease", lease.office, lease.holder, lease.term, lease.beat)

    async def leave_lease(self, lease: Lease) -> None:
        await self._line.rows("leave_lease", lease.office, lease.holder, lease.term)

    async def note_lease(self, office: str, *, holder: str, term: int) -> None:
        await self._line.rows("note_lease", office, holder, term)

    def lease_session(self) -> asyncio.Event:
        return self._line.end()

    async def _one(self, statement: str, *arguments: object) -> Lease | None:
        rows = await self._line.rows(statement, *arguments)
        return lease_from_row(rows[0]) if rows else None
