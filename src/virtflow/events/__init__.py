"""Where events leave the house: buses and the receivers of webhooks."""

from virtflow.events.cloudevents import CloudEvent, envelope
from virtflow.events.contract import Sink, SinkFailed

__all__ = ["CloudEvent", "Sink", "SinkFailed", "envelope"]
