"""Who outside is told of events, and how far: a bus, or the receiver of a webhook."""

import msgspec


class Outlet(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is nats, kafka, amqp or webhook; for a bus that is its `name` too."""

    name: str
    kind: str
    #: it was told of every event up to this number
    cursor: int
    #: a disabled one is told of nothing, and no event is kept for its sake
    enabled: bool = True
    #: why it is not told further; empty when all is well
    error: str = ""
    created_ms: int = 0
    #: when it was last told of something, or when anything else about it changed
    updated_ms: int = 0
    #: when the oldest event happened that it has not been told of; None when it knows all
    waiting_since_ms: int | None = None
    #: since when there is an error; None when all is well
    failing_since_ms: int | None = None
    #: how many events tell of it: one for each time that it was left behind
    version: int = 0


class OutletMove(msgspec.Struct, frozen=True, kw_only=True):
    """It was told of more; refused when its cursor is no longer at `was`."""

    name: str
    was: int
    now: int
    at_ms: int
