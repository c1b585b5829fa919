"""A running process of ours, as it says of itself, and how long ago it said so."""

import msgspec


class Process(msgspec.Struct, frozen=True, kw_only=True):
    #: unlike that of any other process, and of an earlier one on the same machine
    id: str
    #: the machine
    node: str
    roles: tuple[str, ...]
    #: where its API answers; empty until it does
    address: str
    version: str
    #: by its own clock
    started_ms: int
    #: by the clock of the database
    seen_ms: int = 0
    #: how long it has been silent
    silent_ms: int = 0
