"""The database counts the votes: a row for each office, and the holder's session as a sign of life."""

import asyncio

from virtflow.election.ballot import Vote
from virtflow.election.judge import KEPT, LOOKS_APART_S
from virtflow.model.lease import Lease
from virtflow.store.contract import Store


class DatabaseBallot:
    """One session, one term: a call that is given up takes its connection along, so there is nothing to try again."""

    def __init__(self, store: Store, *, office: str, me: str, lease_s: float) -> None:
        self._store = store
        self._office = office
        self._me = me
        self.look_s = min(LOOKS_APART_S, lease_s / 5)
        self.call_s = KEPT * lease_s

    async def check(self) -> None:
        """Whoever can open the database can vote in it."""

    async def look(self) -> Vote | None:
        return _vote(await self._store.lease(self._office))

    async def take(self, seen: Vote | None) -> Vote | None:
        lease = seen.record if seen is not None else None
        return _vote(await self._store.take_lease(self._office, holder=self._me, seen=lease))

    async def renew(self, held: Vote) -> Vote | None:
        return _vote(await self._store.renew_lease(held.record))

    async def leave(self, held: Vote) -> None:
        await self._store.leave_lease(held.record)

    def gone(self) -> asyncio.Event:
        return self._store.lease_session()

    async def close(self) -> None:
        """The store is closed by whoever opened it."""


def _vote(lease: Lease | None) -> Vote | None:
    if lease is None:
        return None
    return Vote(lease.holder, lease.term, lease.beat, lease.is_attended, record=lease)
