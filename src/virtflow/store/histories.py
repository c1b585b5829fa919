"""Which history the event log tells, and which ones it told before the database was restored from a backup."""

import msgspec

from virtflow.model.errors import HistoryOver
from virtflow.model.event import Event, EventType
from virtflow.model.history import FormerHistory
from virtflow.store.events import EventWrites
from virtflow.store.session import Reader, Session

_CURRENT, _FORMER = "history_id", "former_histories"
#: a leader elected after the backup was taken may still be about: its epoch must be an old one
FENCE_STEP = 1_000_000


_decode = msgspec.json.Decoder(list[FormerHistory]).decode


class HistoriesReads:
    _near: Reader

    async def history_id(self) -> str:
        return str((await self._near.rows("setting", _CURRENT))[0][0])

    async def former_histories(self) -> list[FormerHistory]:
        """The oldest first."""
        rows = await self._near.rows("setting", _FORMER)
        return _decode(rows[0][0]) if rows else []

    async def check_history(self, history_id: str, *, after: int) -> None:
        """Raises HistoryOver when whoever read that history up to there has seen what never happened here."""
        if history_id == await self.history_id():
            return
        former = next((one for one in await self.former_histories() if one.id == history_id), None)
        if former is None:
            raise HistoryOver(
                f"the events of this database are not of the history {history_id}",
                remedy="it is another database: read the present state, and go on from `newest`",
            )
        if after > former.last_seq:
            raise HistoryOver(
                f"the database was restored from a backup: history {history_id} ended at event {former.last_seq}, "
                f"and what you read beyond that never happened here",
                remedy="read the present state, and go on from `newest` with the new history_id",
            )


class HistoriesWrites(EventWrites):
    _session: Session

    async def begin_history(self, new_id: str, *, at_ms: int) -> None:
        """The rows came from a backup: from here on the log tells another story, and leaders of before are none."""
        [(former_id,)] = await self._session.rows("setting", _CURRENT)
        rows = await self._session.rows("setting", _FORMER)
        [(_, last_seq)] = await self._session.rows("event_range")
        former = FormerHistory(id=former_id, last_seq=last_seq, ended_ms=at_ms)
        told = msgspec.json.encode([*(_decode(rows[0][0]) if rows else []), former]).decode()
        await self._session.rows("set_setting", _FORMER, told)
        await self._session.rows("set_setting", _CURRENT, new_id)
        await self._session.rows("raise_fence", FENCE_STEP)
        await self.append_events([
            Event(
                type=EventType.DATABASE_RESTORED, kind="database", id=new_id, at_ms=at_ms, actor="operator",
                data={"former_history_id": former_id, "former_newest": last_seq},
            )
        ])  # fmt: skip
