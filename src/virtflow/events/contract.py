"""What takes events out of the house."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from virtflow.model.errors import Unavailable
from virtflow.model.event import Event


class SinkFailed(Unavailable):
    """It did not take them all; they are sent again, so that some may arrive twice and none is left out."""

    code: ClassVar[str] = "sink_failed"


class Sink(Protocol):
    #: the outlet it serves: nats, kafka, amqp
    name: str

    async def send(self, events: Sequence[Event]) -> None:
        """All of them, in order. Returns when each was acknowledged; SinkFailed otherwise, within a bounded time."""
        ...

    async def close(self) -> None: ...
