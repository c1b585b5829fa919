"""The ledger: what is taken from each host, written only under its guard."""

from collections.abc import Sequence

from virtflow.model.resources import DIMENSIONS
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
        _check(changes)
        if all(change.amounts.keys() <= _BUILT_IN for change in changes):
            return _hosts(await self._session.each("take_room", self._room_columns(changes, len(DIMENSIONS))))
        return await self._take_custom_room(changes)

    async def _take_custom_room(self, changes: Sequence[RoomChange]) -> frozenset[int]:
        await self._know_dimensions(changes)
        known = frozenset(self._interned.dimensions)
        unheard = {change.host_id for change in changes if not change.amounts.keys() <= known}
        rows = self._room_columns([change for change in changes if change.host_id not in unheard], WIDTH)
        return _hosts(await self._session.each("take_custom_room", rows)) | unheard

    async def give_room(self, changes: Sequence[RoomChange]) -> None:
        if not changes:
            return
        _check(changes)
        await self._know_dimensions(changes)
        if missing := await self._session.each("give_room", self._room_columns(changes, WIDTH)):
            raise ImpossibleValue(
                f"room was given back to a host that is gone: {missing[0][-1]}", remedy="run virtflow fsck"
            )

    async def _know_dimensions(self, changes: Sequence[RoomChange]) -> None:
        if any(not change.amounts.keys() <= set(self._interned.dimensions) for change in changes):
            await read_dimensions(self._session, self._interned)

    def _room_columns(self, changes: Sequence[RoomChange], width: int) -> list[Row]:
        amounts = self._interned.amounts
        return [(change.instances, *amounts(change.amounts, width), change.host_id) for change in changes]


def _hosts(rows: Sequence[Row]) -> frozenset[int]:
    return frozenset(row[-1] for row in rows)


def _check(changes: Sequence[RoomChange]) -> None:
    """Mistakes of the caller that would make the ledger wrong in silence."""
    if len({change.host_id for change in changes}) != len(changes):
        raise ValueError("one change per host: add the amounts of all its instances together")
    if any(change.instances < 0 or min(change.amounts.values(), default=0) < 0 for change in changes):
        raise ValueError("amounts are taken and given, never negative")
