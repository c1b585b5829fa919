"""Where the votes are counted: one record for each office, which changes by compare-and-set alone."""

import asyncio
from typing import Any, NamedTuple, Protocol


class Vote(NamedTuple):
    """The record as somebody has seen it."""

    #: the id of a process; nobody when empty
    holder: str
    #: grows with every change of the holder
    term: int
    #: differs after everything that happens to the record
    mark: str | int
    #: False: there is a sign that the holder is dead
    is_attended: bool = True
    #: what the ballot wants to be given back
    record: Any = None


class Ballot(Protocol):
    """Every call may fail with a VirtflowError, or never return: whoever calls has his own deadline."""

    #: so long from one look to the next
    look_s: float
    #: a call that takes longer is given up
    call_s: float

    async def check(self) -> None:
        """InvalidSetting when it can never work."""
        ...

    async def look(self) -> Vote | None:
        """None when nobody ever held the office."""
        ...

    async def take(self, seen: Vote | None) -> Vote | None:
        """We hold it, if all is as it was seen; None when it is not."""
        ...

    async def renew(self, held: Vote) -> Vote | None:
        """We still hold it; None when somebody else does."""
        ...

    async def leave(self, held: Vote) -> None:
        """Nobody holds it, unless somebody else does already."""
        ...

    def gone(self) -> asyncio.Event:
        """Asked right after `take`. Set when others may see us as dead although we are not."""
        ...

    async def close(self) -> None: ...
