"""Where events leave the house: buses and the receivers of webhooks."""

from virtflow.events.cloudevents import CloudEvent, as_json, envelope, notice
from virtflow.events.contract import Sink, SinkFailed
from virtflow.events.guard import Forbidden, Guard, Unresolved
from virtflow.events.post import Mailer, Post, Reply

__all__ = [
    "CloudEvent",
    "Forbidden",
    "Guard",
    "Mailer",
    "Post",
    "Reply",
    "Sink",
    "SinkFailed",
    "Unresolved",
    "as_json",
    "envelope",
    "notice",
]
