"""Where events leave the house: buses and the receivers of webhooks."""

from virtflow.events.cloudevents import CloudEvent, as_json, envelope, notice
from virtflow.events.contract import Sink, SinkFailed
from virtflow.events.guard import Forbidden, Guard, Unresolved
from virtflow.events.post import KEPT, Mailer, MayLeave, Post, Reply, always

__all__ = [
    "KEPT",
    "CloudEvent",
    "Forbidden",
    "Guard",
    "Mailer",
    "MayLeave",
    "Post",
    "Reply",
    "Sink",
    "SinkFailed",
    "Unresolved",
    "always",
    "as_json",
    "envelope",
    "notice",
]
