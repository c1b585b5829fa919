"""What happened: a piece of the log, or a stream that goes on."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.body import Receive, single
from virtflow.api.errors import BadHeader
from virtflow.api.exchange import Exchange
from virtflow.api.operation import Call, Noun, encode, ok
from virtflow.api.query import given
from virtflow.api.router import Stream
from virtflow.api.settings import ApiSettings
from virtflow.control.event_feed import EventFeed
from virtflow.control.orders import Rendered
from virtflow.model.errors import Busy, Gone
from virtflow.model.event import Event, EventType
from virtflow.model.event_out import EventOut, event_out
from virtflow.model.limits import EVENTS_PER_CHUNK_MAX, PAGE_ITEMS_DEFAULT
from virtflow.model.names import TASK_ID
from virtflow.store.contract import EventFilter

events = Noun("events")

SEQ_MAX = 2**53
TYPES = tuple(one.value for one in EventType)
#: where the server leaves an event that is set when it stops
STOPPING = "virtflow.stopping"
EVENT_STREAM = "text/event-stream"
#: what is not written within this time is not being read
WRITE_S_MAX = 30.0

Seq = Annotated[int, Meta(ge=0, le=SEQ_MAX)]
#: the beginnings of several types
STEMS = tuple(sorted({one.partition(".")[0] + "." for one in TYPES}))


_HISTORY_ID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _type_rule(text: str) -> str | None:
    return None if text in TYPES or text in STEMS else f"must be one of {', '.join((*STEMS, *TYPES))}"


def _id_rule(text: str) -> str | None:
    return None if text == "" or TASK_ID.fullmatch(text) else "must be a name or an id"


def _history_rule(text: str) -> str | None:
    return None if _HISTORY_ID.fullmatch(text) else "must be a history_id as a page has it"


OneType = Annotated[str, Meta(extra={"rule": _type_rule}, extra_json_schema={"enum": [*STEMS, *TYPES]})]
OneId = Annotated[
    str,
    Meta(extra={"rule": _id_rule}, extra_json_schema={"pattern": f"^(?:{TASK_ID.pattern})?$", "maxLength": 64}),
]


class EventPageOut(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the log. Another `history_id` is another log: start over."""

    items: list[EventOut]
    next_after: int
    oldest: int
    newest: int
    history_id: str


class _Which(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: (
        Annotated[list[OneType], Meta(max_length=len(TYPES), description="a type, or the beginning of several: task.")]
        | UnsetType
    ) = UNSET
    kind: Literal["host", "pool", "task", "vm", "dead", "outlet", "database", "leader"] | UnsetType = UNSET
    id: (
        Annotated[
            OneId, Meta(description="name (host, pool, outlet), office (leader) or id (task, vm, dead, database)")
        ]
        | UnsetType
    ) = UNSET


HistoryId = Annotated[
    str,
    Meta(
        extra={"rule": _history_rule},
        extra_json_schema={"format": "uuid"},
        description="the history read up to `after`: 410 when it ended before that",
    ),
]


class EventQuery(_Which, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events."""

    after: Annotated[Seq, Meta(description="default: 0, the beginning")] | UnsetType = UNSET
    history_id: HistoryId | UnsetType = UNSET
    limit: (
        Annotated[int, Meta(ge=1, le=EVENTS_PER_CHUNK_MAX, description=f"default: {PAGE_ITEMS_DEFAULT}")] | UnsetType
    ) = UNSET


class StreamQuery(_Which, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events, and from where on."""

    after: Annotated[Seq, Meta(description="default: what comes next")] | UnsetType = UNSET
    history_id: HistoryId | UnsetType = UNSET


def _where(query: _Which) -> EventFilter:
    return EventFilter(types=tuple(query.type or ()), kind=given(query.kind), id=given(query.id))


@events.get("/v1/events", query=EventQuery, answers={200: EventPageOut}, refusals=(410,))
async def list_events(call: Call[None, EventQuery]) -> Rendered:
    """Read a piece of the log."""
    query = call.query
    page = await call.house.events.read(
        _where(query),
        after=query.after or 0,
        limit=query.limit or PAGE_ITEMS_DEFAULT,
        history_id=given(query.history_id),
    )
    return ok(
        EventPageOut(
            items=[event_out(event) for event in page.items],
            next_after=page.next_after,
            oldest=page.oldest,
            newest=page.newest,
            history_id=page.history_id,
        )
    )


@events.get("/v1/events/stream", query=StreamQuery, answers={200: EVENT_STREAM}, refusals=(410,))
async def stream_events(call: Call[None, StreamQuery]) -> Stream:
    """Follow the log, as server-sent events."""
    where = _where(call.query)
    after = _resume_from(call)
    if after is not None:  # too old, or of another history, is said before anything is sent
        await call.house.events.check(after=after, history_id=given(call.query.history_id))
    return call.desk.streams.opened(call.house.events, where, after)


def _resume_from(call: Call[None, StreamQuery]) -> int | None:
    """A browser that lost the line says where it was; that counts more than where it began."""
    text = single(call.exchange.headers, b"last-event-id")
    if text is None:
        return given(call.query.after)
    if not text.isdigit() or int(text[:20]) > SEQ_MAX:
        raise BadHeader("Last-Event-ID must be the number of an event", remedy="leave it out to begin with what comes")
    return int(text)


# ── the stream ────────────────────────────────────────────────────────────────────────────────────


class Streams:
    """All open streams of this process; so many and no more."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._open = 0

    def opened(self, feed: EventFeed, where: EventFilter, after: int | None) -> Stream:
        if self._open >= self._settings.streams_max:
            raise Busy(f"{self._open} streams are open, no more are possible", retry_after_s=10)

        async def send(exchange: Exchange) -> None:
            self._open += 1
            try:
                await self._send(exchange, feed.follow(where, after=after))
            finally:
                self._open -= 1

        return send

    async def _send(self, exchange: Exchange, news: AsyncIterator[list[Event]]) -> None:
        await _begin(exchange)
        if exchange.scope.get("virtflow.head"):
            await _write(exchange, b"", more=False)
            return
        ending = {
            asyncio.create_task(_until_gone(exchange.receive), name="gone"),
            asyncio.create_task(_until_stopping(exchange.scope), name="stopping"),
        }
        upcoming = asyncio.ensure_future(anext(news, None))
        try:
            while True:
                done, _ = await asyncio.wait(
                    {upcoming, *ending}, timeout=self._settings.heartbeat_s, return_when=asyncio.FIRST_COMPLETED
                )
                if any(task.get_name() == "gone" for task in done if task is not upcoming):
                    return
                if upcoming in done:
                    batch = await upcoming
                    if batch is None:
                        break
                    await _write(exchange, _frames(batch))
                    upcoming = asyncio.ensure_future(anext(news, None))
                elif done:
                    break
                else:
                    await _write(exchange, b": still here\n\n")
            await _write(exchange, b"event: server.closing\ndata: {}\nretry: 500\n\n", more=False)
        except Gone as error:  # it fell too far behind; coming back, it is told the whole story
            data = encode({"code": error.error_code, "detail": error.detail})
            await _write(exchange, b"event: server.gone\ndata: " + data + b"\n\n", more=False)
        except TimeoutError:
            return  # nobody reads: without an end the server cuts the line
        finally:
            await _cancel(upcoming, *ending)
            await news.aclose()  # type: ignore[attr-defined]


async def _begin(exchange: Exchange) -> None:
    exchange.status = 200
    headers = [
        (b"content-type", EVENT_STREAM.encode()),
        (b"cache-control", b"no-store"),
        # buffering proxies would hold the events back
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", exchange.request_id),
    ]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
    if not exchange.scope.get("virtflow.head"):
        await _write(exchange, b": welcome\n\n")


async def _write(exchange: Exchange, data: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(WRITE_S_MAX):
        await exchange.send({"type": "http.response.body", "body": data, "more_body": more})


def _frames(batch: Sequence[Event]) -> bytes:
    return b"".join(
        b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), encode(event_out(event)))
        for event in batch
    )


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _until_stopping(scope: Any) -> None:
    stopping: asyncio.Event | None = scope.get("state", {}).get(STOPPING)
    await (stopping or asyncio.Event()).wait()


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
