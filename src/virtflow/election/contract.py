"""What an election gives: one term after the other, to one process at a time."""

from typing import Protocol


class Term(Protocol):
    """One time in office. It may end at any moment; the fence in the database is what makes that harmless."""

    office: str
    #: grows with every change of the holder
    number: int

    def is_valid(self) -> bool: ...
    async def ended(self) -> None: ...
    async def resign(self) -> None: ...


class Election(Protocol):
    office: str
    #: "following", "leading", or what is wrong
    state: str

    async def campaign(self) -> Term: ...
    async def close(self) -> None: ...
