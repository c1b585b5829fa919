"""Events, as rows: many of one commit share a row, and their numbers follow from their place in it."""

from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from virtflow.model.errors import Gone
from virtflow.model.event import Event
from virtflow.model.limits import EVENTS_PER_CHUNK_MAX
from virtflow.store.contract import Changes, EventFilter
from virtflow.store.session import Reader, Row, Session, Snapshots

#: Rows read at once: a page of events is seldom more.
_ROWS_READ = 4
#: The same for those who follow: a row is a commit.
CHANGED_ROWS_MAX = 64

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Event]).decode
_EVERYTHING = EventFilter()


def events_from_row(row: Row) -> list[Event]:
    first, last, body, origin = row
    events = _decode(body)
    for seq, event in zip(range(first, last + 1), events, strict=True):
        msgspec.structs.force_setattr(event, "seq", seq)  # nobody else has seen this record yet
        if origin:
            msgspec.structs.force_setattr(event, "origin", origin)
    return events


class EventReads:
    _near: Reader
    _far: Reader
    _snapshot: Snapshots
    #: which process writes here; empty where there is only one
    origin: str = ""

    async def events(self, where: EventFilter, *, after: int, limit: int) -> list[Event]:
        _, newest = await self.event_range()
        if where == _EVERYTHING:  # without gaps, so that the wanted ones are known by their numbers
            upto = min(newest, after + limit)
            rows = await self._far.rows("events_between", after, upto, upto + EVENTS_PER_CHUNK_MAX)
            await self._refuse_forgotten(after)
            return [event for row in rows for event in events_from_row(row) if after < event.seq <= upto]
        found: list[Event] = []
        seen = after
        while seen < newest and len(found) < limit:
            rows = await self._far.rows("events_after", seen, _ROWS_READ)
            if not rows:
                break
            for row in rows:
                found += (event for event in matching(row, where) if event.seq > after)
            seen = rows[-1][1]
        await self._refuse_forgotten(after)  # last, so that what was forgotten while we read is noticed
        return found[:limit]

    async def changes(self, *, after: int, limit: int = CHANGED_ROWS_MAX) -> Changes:
        oldest, newest = await self.event_range()
        if after + 1 < oldest:
            raise Gone(f"events before {oldest} are no longer kept", remedy="load everything anew")
        if newest <= after:
            return Changes((), after)
        rows = await self._far.rows("events_of_others", after, newest, self.origin, limit)
        events = [event for row in rows for event in events_from_row(row) if event.seq > after]
        has_more = len(rows) == limit
        return Changes(events, rows[-1][1] if has_more else newest, has_more)

    async def event_range(self) -> tuple[int, int]:
        [(oldest, newest)] = await self._near.rows("event_range")
        return oldest, newest

    async def scan_events(self) -> AsyncIterator[list[Event]]:
        async with self._snapshot() as reader:
            [(oldest, _)] = await reader.rows("event_range")
            after = oldest - 1
            while rows := await reader.rows("events_after", after, 1):
                yield [event for event in events_from_row(rows[0]) if event.seq >= oldest]
                after = rows[0][1]

    async def _refuse_forgotten(self, after: int) -> None:
        oldest, _ = await self.event_range()
        if after + 1 < oldest:
            raise Gone(f"events before {oldest} are no longer kept", remedy="read the present state, go on from there")


def matching(row: Row, where: EventFilter) -> Iterator[Event]:
    if where.id is not None and _encode(where.id) not in row[2]:
        return iter(())  # most rows say nothing about one object, and need not be read
    return (event for event in events_from_row(row) if _matches(event, where))


def _matches(event: Event, where: EventFilter) -> bool:
    return (
        (where.id is None or event.id == where.id)
        and (where.kind is None or event.kind == where.kind)
        and (not where.types or any(_is_of_type(event.type.value, wanted) for wanted in where.types))
    )


def _is_of_type(name: str, wanted: str) -> bool:
    return name.startswith(wanted) if wanted.endswith(".") else name == wanted


class EventWrites:
    _session: Session
    _origin: str

    async def append_events(self, events: Sequence[Event]) -> int:
        chunks = [events[i : i + EVENTS_PER_CHUNK_MAX] for i in range(0, len(events), EVENTS_PER_CHUNK_MAX)]
        bodies = [_encode(chunk) for chunk in chunks]  # before the counter's row is held
        [(newest, *_)] = await self._session.rows("number_events", len(events))
        first = int(newest) - len(events) + 1
        last = first - 1
        rows = []
        for chunk, body in zip(chunks, bodies, strict=True):
            rows.append((last + 1, chunk[0].at_ms, body, self._origin or None, last + len(chunk)))
            last += len(chunk)
        await self._session.each("add_events", rows)
        return first

    async def forget_some_events(self, keep_from: int, rows_max: int) -> int:
        """Forgets all before that number at once, and drops a bounded number of their rows; returns how many."""
        await self._session.rows("keep_events_from", keep_from)
        return len(await self._session.rows("drop_events", keep_from, rows_max))
