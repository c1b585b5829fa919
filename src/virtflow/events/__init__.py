"""Where events leave the house: buses and the receivers of webhooks."""

from virtflow.events.contract import Sink, SinkFailed

__all__ = ["Sink", "SinkFailed"]
