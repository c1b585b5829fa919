"""What happened, in order: read a piece of the log, or follow it over interruptions."""

from collections.abc import Iterator, Sequence

import httpx
import msgspec

from virtflow.client.errors import ApiError, BadAnswer, ClientError
from virtflow.client.pages import Page
from virtflow.client.records import Event, EventRange, read
from virtflow.client.transport import BUSY, Params, Transport
from virtflow.model.limits import EVENTS_PER_CHUNK_MAX

PATH = "/v1/events"
#: a stream says something at least every few seconds, if only that it lives; then it is taken for lost
SILENCE_S_MAX = 60.0
#: in a row without a single line received
RECONNECTS_MAX = 10
LINE_BYTES_MAX = 8 * 2**20


class Events:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def range(self) -> EventRange:
        """Where the log begins and ends now."""
        return self._transport.get(PATH, EventRange, {"limit": 1})

    def list(
        self,
        *,
        after: int = 0,
        types: Sequence[str] = (),
        kind: str | None = None,
        id: str | None = None,  # noqa: A002  # as the API calls it
        limit: int = EVENTS_PER_CHUNK_MAX,
    ) -> Iterator[Event]:
        """What is in the log after that number, oldest first. `types` are exact, or prefixes such as "task."."""
        asked: Params = {"type": types, "kind": kind, "id": id}
        newest = None
        while limit > 0:
            answer = self._transport.send(
                "GET", PATH, params={**asked, "after": after, "limit": min(limit, EVENTS_PER_CHUNK_MAX)}
            ).content
            where = read(answer, EventRange)
            items = msgspec.json.decode(answer, type=Page).items
            yield from (read(raw, Event) for raw in items)
            newest = where.newest if newest is None else newest
            # what happens while we read is not part of the piece: a busy log would never end
            if where.next_after <= after or where.next_after >= newest:
                return
            after, limit = where.next_after, limit - len(items)

    def follow(
        self,
        *,
        after: int | None = None,
        types: Sequence[str] = (),
        kind: str | None = None,
        id: str | None = None,  # noqa: A002  # as the API calls it
        history_id: str | None = None,
    ) -> Iterator[Event]:
        """Every event after that number (default: from now on), for ever. Resumes where it was when the line breaks.

        `history_id`: of the log in which `after` was read; ApiError `history_over` when it has ended before that.
        """
        last = after or 0
        if after is None:
            now = self.range()
            # a database that is restored from now on tells another story: that is refused instead of gone on with
            last, history_id = now.newest, now.history_id or None
        asked: Params = {"type": types, "kind": kind, "id": id, "history_id": history_id}
        losses = 0
        while True:
            loss: ClientError | None = None
            try:
                for event in self._stream(asked, last):
                    losses = 0
                    if event is not None and event.seq > last:
                        last = event.seq
                        yield event
            except ApiError as refusal:
                if refusal.status not in BUSY:
                    raise
                loss = refusal
            except httpx.TransportError as error:
                loss = self._transport.not_reachable(error)
            losses += 1
            if losses > RECONNECTS_MAX:
                raise loss or BadAnswer("the stream of events ends at once, again and again")
            self._transport.sleep(self._transport.patience.wait_s(losses - 1, self._transport.chance()))

    def _stream(self, asked: Params, last: int) -> Iterator[Event | None]:
        """Events of one connection; None for a sign of life."""
        response = self._transport.stream(
            f"{PATH}/stream",
            params=asked,
            headers={"Accept": "text/event-stream", "Last-Event-ID": str(last)},
            timeout_s=SILENCE_S_MAX,
        )
        try:
            yield from read_stream(response.iter_bytes())
        finally:
            response.close()


def read_stream(chunks: Iterator[bytes]) -> Iterator[Event | None]:
    """Server-sent events out of pieces of any size. An unfinished event at the end is dropped: it comes again."""
    number, data = 0, bytearray()
    for line in _lines(chunks):
        if not line:
            if data:
                yield _event(bytes(data), number)
            number, data = 0, bytearray()
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data += (b"\n" if data else b"") + value
        elif field == b"id" and value.isdigit():
            number = int(value)
        yield None


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Split at line feeds alone: JSON may contain what Python also takes for the end of a line."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise BadAnswer(f"a line of the stream of events is longer than {LINE_BYTES_MAX} bytes")
        yield from (line.removesuffix(b"\r") for line in whole)


def _event(data: bytes, number: int) -> Event:
    event = read(data, Event)
    if event.seq == 0:
        raw = event.__dict__["raw"]
        event = msgspec.structs.replace(event, seq=number)
        event.__dict__["raw"] = raw
    return event
