"""A history of events: what one database tells, until it is restored from a backup."""

import msgspec


class FormerHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Told before the database was restored."""

    id: str
    #: events up to here are of it and of all that followed; what came after them is lost
    last_seq: int
    ended_ms: int
