"""What takes events out of the house."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from virtflow.events.cloudevents import CloudEvent
from virtflow.model.errors import Unavailable


class SinkFailed(Unavailable):
    """It did not take them all: the first `taken` for certain, any of the others perhaps."""

    code: ClassVar[str] = "sink_failed"

    def __init__(self, detail: str, *, remedy: str = "", taken: int = 0) -> None:
        super().__init__(detail, remedy=remedy)
        self.taken = taken


class Sink(Protocol):
    #: the outlet it serves: nats, kafka, amqp
    name: str

    async def send(self, events: Sequence[CloudEvent]) -> None:
        """All of them; those of one object in order. Returns when each was acknowledged.

        SinkFailed otherwise, within a bounded time; what was not taken for certain is sent again, so that some arrive
        twice and none is left out. Sending nothing shows whether it could.
        """
        ...

    async def close(self) -> None: ...
