"""The envelope in which an event leaves the house: CloudEvents 1.0."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from virtflow.model.event import Event
from virtflow.model.event_out import event_out
from virtflow.model.times import time_text

JSON = "application/json"
#: of an envelope as `as_json` writes it
STRUCTURED = "application/cloudevents+json"

_encode = msgspec.json.Encoder(order="deterministic").encode


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Fields are the attributes of the standard; `sequence` and `traceparent` are its extensions."""

    specversion: str = "1.0"
    #: the same for every delivery of an event, and for no other event of any database
    id: str
    source: str
    type: str
    subject: str
    time: str
    datacontenttype: str = JSON
    #: the number of the event, of equal length, so that it may be compared as text
    sequence: str
    traceparent: str | UnsetType = UNSET
    #: the event as the API shows it
    data: msgspec.Raw

    @property
    def attributes(self) -> dict[str, str]:
        """All but the data, for whoever sends them beside it."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if isinstance(value, str)}


def envelope(event: Event, *, history_id: str) -> CloudEvent:
    """`history_id` is that of the database: its numbers begin at 1, as those of any other."""
    more: dict[str, Any] = {"traceparent": event.trace} if event.trace else {}
    return CloudEvent(
        id=f"{history_id}-{event.seq}",
        source=f"urn:virtflow:{history_id}",
        type=f"virtflow.{event.type}",
        subject=f"{event.kind}/{event.id}",
        time=time_text(event.at_ms),
        sequence=f"{event.seq:020d}",
        data=msgspec.Raw(_encode(event_out(event))),
        **more,
    )


def as_json(event: CloudEvent) -> bytes:
    """Envelope and data in one document."""
    return _encode(event)


def notice(kind: str, data: dict[str, object], *, message_id: str, subject: str, history_id: str, at_ms: int) -> bytes:
    """A message that is about no event of the log: a test, or a gap."""
    return as_json(
        CloudEvent(
            id=message_id,
            source=f"urn:virtflow:{history_id}",
            type=f"virtflow.{kind}",
            subject=subject,
            time=time_text(at_ms),
            sequence=f"{0:020d}",
            data=msgspec.Raw(_encode(data)),
        )
    )
