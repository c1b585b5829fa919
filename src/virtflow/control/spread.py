"""From the log into the queues: each receiver has its place in the log; those at the same place are served together."""

import collections
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog

from virtflow.control.ids import Ids
from virtflow.control.line import Line
from virtflow.events import as_json, envelope, notice
from virtflow.model.clock import Clock
from virtflow.model.errors import Gone
from virtflow.model.event import Event, EventType
from virtflow.model.names import id_from_text
from virtflow.model.outlet import Outlet, OutletMove
from virtflow.model.url import read_url
from virtflow.model.webhook import CALLBACK_OUTLET, KIND, Delivery, TaskCallback, Webhook
from virtflow.store.contract import EventFilter, Store

log = structlog.get_logger(__name__)

PAGE = 200
GAP = "events.gone"
_EVERYTHING = EventFilter()
_ENDS = frozenset({EventType.TASK_COMPLETED, EventType.TASK_FAILED, EventType.TASK_CANCELLED})


class Receiver(NamedTuple):
    webhook: Webhook
    line: Line


class Spread:
    """What it puts into queues is in the database first, in the transaction that moves the place in the log."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._history_id = ""
        #: by outlet
        self._cursors: dict[str, int] = {}
        #: by outlet: how often it was left behind
        self._versions: dict[str, int] = {}
        #: lines for which another relay has written messages down meanwhile: who reads their rows takes them out
        self.overtaken: set[str] = set()
        #: where the place of the callbacks was last written down
        self._written = 0

    async def load(self) -> None:
        """All places anew."""
        self._history_id = await self._store.history_id()
        outlets = [outlet for outlet in await self._store.outlets() if outlet.kind == KIND]
        self._cursors = {outlet.name: outlet.cursor for outlet in outlets}
        self._versions = {outlet.name: outlet.version for outlet in outlets}
        self._ids.run_after(await self._store.newest_delivery())
        if CALLBACK_OUTLET not in self._cursors:
            self._cursors[CALLBACK_OUTLET] = await self._begin_callbacks()
        self._written = self._cursors[CALLBACK_OUTLET]

    async def _begin_callbacks(self) -> int:
        oldest, newest = await self._store.event_range()  # first: whoever asks afterwards is told by a later event
        cursor = oldest - 1 if await self._store.any_callback() else newest
        now_ms = self._clock.now_ms()
        async with self._store.transaction() as tx:
            await tx.add_outlets(
                [Outlet(name=CALLBACK_OUTLET, kind=KIND, cursor=cursor, created_ms=now_ms, updated_ms=now_ms)]
            )
        return cursor

    async def forward(self, receivers: Sequence[Receiver], *, into_any_room: bool) -> bool:
        """One step for each that has room for a page, or any at all; says whether there may be more."""
        least = 1 if into_any_room else PAGE
        _, newest = await self._store.event_range()
        groups: dict[int, list[Receiver]] = collections.defaultdict(list)
        for receiver in receivers:
            cursor = self._cursors.get(receiver.webhook.outlet)
            if cursor is not None and cursor < newest and receiver.line.room >= least:
                groups[cursor].append(receiver)
        for cursor, members in groups.items():
            await self._forward(cursor, members)
        return bool(groups)

    async def _forward(self, cursor: int, members: Sequence[Receiver]) -> None:
        limit = min(PAGE, *(member.line.room for member in members))
        try:
            events = await self._store.events(_EVERYTHING, after=cursor, limit=limit)
        except Gone:
            oldest, _ = await self._store.event_range()
            await self._tell_of_gap(cursor, members, first=cursor + 1, last=oldest - 1)
            return
        if not events:
            return
        bodies: dict[int, bytes] = {}
        rows = {
            member.webhook.name: [
                self._delivery(event, bodies, line=member.line.name) for event in events if member.webhook.wants(event)
            ]
            for member in members
        }
        await self._write(cursor, events[-1].seq, members, rows)

    async def _tell_of_gap(self, was: int, members: Sequence[Receiver], *, first: int, last: int) -> None:
        """They slept for so long that events are no longer kept: they are told which, and go on from there."""
        names = [member.webhook.name for member in members]
        log.warning("webhooks.gap", webhooks=names, first=first, last=last)
        message_id = f"{self._history_id}-gap-{first}"
        body = notice(
            GAP,
            {"first": first, "last": last},
            message_id=message_id,
            subject="events",
            history_id=self._history_id,
            at_ms=self._clock.now_ms(),
        )
        rows = {member.webhook.name: [self._gap(member.line.name, first, message_id, body)] for member in members}
        await self._write(was, last, members, rows)

    def _gap(self, line: str, first: int, message_id: str, body: bytes) -> Delivery:
        now_ms = self._clock.now_ms()
        return Delivery(
            id=self._ids.next(),
            line=line,
            seq=first,
            type=GAP,
            subject="events",
            message_id=message_id,
            body=body,
            created_ms=now_ms,
            since_ms=now_ms,
        )

    async def _write(
        self, was: int, now: int, members: Sequence[Receiver], rows: Mapping[str, Sequence[Delivery]]
    ) -> None:
        at_ms = self._clock.now_ms()
        async with self._store.transaction() as tx:
            moves = [OutletMove(name=member.webhook.outlet, was=was, now=now, at_ms=at_ms) for member in members]
            lost = await tx.move_outlets(moves)
            moved = [member for member in members if member.webhook.outlet not in lost]
            await tx.add_deliveries([row for member in moved for row in rows[member.webhook.name]])
        for member in moved:
            self._cursors[member.webhook.outlet] = now
            member.line.add(rows[member.webhook.name])
        for member in [one for one in members if one.webhook.outlet in lost]:
            version = self._versions.get(member.webhook.outlet)
            found = await self._find(member.webhook.outlet)
            if found > was and self._versions[member.webhook.outlet] != version:
                # it fell so far behind that housekeeping left it behind
                await self._tell_of_gap(found, [member], first=was + 1, last=found)
            elif found > was:
                self.overtaken.add(member.line.name)

    async def _find(self, name: str) -> int:
        """Where somebody else has put it; -1 when it is gone."""
        outlet = await self._store.outlet(name)
        if outlet is None:
            self._cursors.pop(name, None)
            return -1
        self._cursors[name], self._versions[name] = outlet.cursor, outlet.version
        return outlet.cursor

    # ── callbacks of tasks ────────────────────────────────────────────────────────────────────────

    async def forward_callbacks(self, *, to_write: bool) -> Sequence[Delivery] | None:
        """One step; None when there is no further one now. While nobody waits, the place is written only `to_write`."""
        oldest, newest = await self._store.event_range()
        cursor = max(self._cursors[CALLBACK_OUTLET], oldest - 1)
        if (self._written if to_write else cursor) >= newest:
            return None
        if not await self._store.any_callback():
            self._cursors[CALLBACK_OUTLET] = newest
            if to_write:
                await self._move_callbacks(newest, {})
            return None
        try:
            events = await self._store.events(_EVERYTHING, after=cursor, limit=PAGE)
        except Gone:
            return ()  # the next step begins where the log does
        if not events:
            return None
        ended = {id_from_text(event.id): event for event in events if event.type in _ENDS}
        return await self._move_callbacks(events[-1].seq, ended)

    async def _move_callbacks(self, upto: int, ended: Mapping[bytes, Event]) -> Sequence[Delivery]:
        async with self._store.transaction() as tx:
            move = OutletMove(name=CALLBACK_OUTLET, was=self._written, now=upto, at_ms=self._clock.now_ms())
            lost = await tx.move_outlets([move])
            taken = await tx.take_callbacks(list(ended)) if not lost else []
            rows = [self._callback(each, ended[each.task_id]) for each in taken]
            await tx.add_deliveries(rows)
        if lost:
            await self._find(CALLBACK_OUTLET)
            self._written = self._cursors[CALLBACK_OUTLET]
        else:
            self._cursors[CALLBACK_OUTLET] = self._written = upto
        return rows

    def _callback(self, each: TaskCallback, event: Event) -> Delivery:
        line = read_url(each.callback.url).origin
        return self._delivery(event, {}, line=line, url=each.callback.url, secret=each.callback.secret)

    def _delivery(self, event: Event, bodies: dict[int, bytes], *, line: str, **more: object) -> Delivery:
        message = envelope(event, history_id=self._history_id)
        if event.seq not in bodies:
            bodies[event.seq] = as_json(message)
        now_ms = self._clock.now_ms()
        return Delivery(
            id=self._ids.next(),
            line=line,
            seq=event.seq,
            type=event.type.value,
            subject=message.subject,
            message_id=message.id,
            body=bodies[event.seq],
            created_ms=now_ms,
            since_ms=now_ms,
            **more,  # type: ignore[arg-type]
        )
