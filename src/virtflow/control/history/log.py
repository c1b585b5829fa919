"""The event log as it lies in the database, read in order: I9."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from virtflow.control.history.report import Report
from virtflow.store.contract import Moment


class Line(msgspec.Struct, gc=False):
    """What the checker wants to know of an event."""

    type: str
    kind: str
    id: str
    version: int = 1
    at_ms: int = 0
    host: str = ""
    delta: msgspec.Raw = msgspec.Raw()
    fence: int = 0
    was: str = ""
    now: str = ""
    data: msgspec.Raw = msgspec.Raw()


class Commit(NamedTuple):
    """Events that one process wrote at once; the first has the number `first`."""

    first: int
    origin: str
    lines: Sequence[Line]


_decode = msgspec.json.Decoder(list[Line]).decode


async def read_log(moment: Moment, report: Report, progress: Callable[[str, int], None]) -> AsyncIterator[Commit]:
    """From the oldest event that is kept. Gaps are told, and read over."""
    last = report.oldest_event - 1
    async for rows in moment.bare_rows("log"):
        for row in rows:
            commit = _read(row, last, report)
            if commit is not None:
                yield commit
            last = max(last, row[0])
        progress("events", last)
    if last != report.newest_event:
        report.add("I9", f"the counter names {report.newest_event} as the last event, the log ends with {last}")


def _read(row: Sequence[Any], last: int, report: Report) -> Commit | None:
    last_seq, first_seq, origin, body = row
    if last_seq <= last and last_seq < report.oldest_event:
        return None  # forgotten, and not yet thrown away
    try:
        lines = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        report.add("I9", f"events {first_seq} to {last_seq} cannot be read: {error}", seq=first_seq)
        return None
    if len(lines) != last_seq - first_seq + 1:
        report.add("I9", f"the row of events {first_seq} to {last_seq} holds {len(lines)}", seq=first_seq)
    if first_seq > last + 1:
        report.add("I9", f"event {first_seq} follows {last}", seq=first_seq)
    elif first_seq < last + 1 and last >= report.oldest_event:
        report.add("I9", f"events {first_seq} to {last} are there twice", seq=first_seq)
    begin = max(0, report.oldest_event - first_seq)
    report.events += len(lines) - begin
    return Commit(first_seq + begin, origin or "", lines[begin:])
