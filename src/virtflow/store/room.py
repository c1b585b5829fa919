"""The ledger: what is taken from each host, written only under its guard."""

from collections.abc import Sequence

from virtflow.model.resources import CPU, DIMENSIONS, DISK, GPU, MEMORY, VMS
from virtflow.store.contract import RoomChange
from virtflow.store.failures import ImpossibleValue
from virtflow.store.hosts import WIDTH, read_dimensions
from virtflow.store.interned import Interned
from virtflow.store.session import Row, Session

_BUILT_IN = frozenset(DIMENSIONS)


class RoomWrites:
    _session: Session
    _interned: Interned

    async def take_room(self, changes: Sequence[RoomChange]) -> frozenset[int]:
        if not changes:
            return frozenset()
        rows = _built_in_columns(changes)
        if rows is None:
            return await self._take_custom_room(changes)
        _check(rows)
        return _hosts(await self._session.each("take_room", rows))

    async def _take_custom_room(self, changes: Sequence[RoomChange]) -> frozenset[int]:
        await self._know_dimensions(changes)
        known = frozenset(self._interned.dimensions)
        unheard = {change.host_id for change in changes if not change.amounts.keys() <= known}
        rows = self._all_columns([change for change in changes if change.host_id not in unheard])
        _check(rows)
        return _hosts(await self._session.each("take_custom_room", rows)) | unheard

    async def give_room(self, changes: Sequence[RoomChange]) -> None:
        if not changes:
            return
        await self._know_dimensions(changes)
        rows = self._all_columns(changes)
        _check(rows)
        if missing := await self._session.each("give_room", rows):
            raise ImpossibleValue(
                f"room was given back to a host that is gone: {missing[0][-1]}", remedy="run virtflow fsck"
            )

    async def _know_dimensions(self, changes: Sequence[RoomChange]) -> None:
        if any(not change.amounts.keys() <= set(self._interned.dimensions) for change in changes):
            await read_dimensions(self._session, self._interned)

    def _all_columns(self, changes: Sequence[RoomChange]) -> list[Row]:
        amounts = self._interned.amounts
        return [(change.instances, *amounts(change.amounts, WIDTH), change.host_id) for change in changes]


def _built_in_columns(changes: Sequence[RoomChange]) -> list[Row] | None:
    """None when a custom dimension is wanted. Spelled out: this runs for every host of every round."""
    rows: list[Row] = []
    for change in changes:
        amounts = change.amounts
        if not amounts.keys() <= _BUILT_IN:
            return None
        get = amounts.get
        rows.append(
            (change.instances, get(CPU, 0), get(MEMORY, 0), get(DISK, 0), get(GPU, 0), get(VMS, 0), change.host_id)
        )
    return rows


def _hosts(rows: Sequence[Row]) -> frozenset[int]:
    return frozenset(row[-1] for row in rows)


def _check(rows: Sequence[Row]) -> None:
    """Mistakes of the caller that would make the ledger wrong in silence."""
    if len({row[-1] for row in rows}) != len(rows):
        raise ValueError("one change per host: add the amounts of all its instances together")
    if rows and min(map(min, rows)) < 0:
        raise ValueError("amounts are taken and given, never negative")
