"""What an election gives: one term after the other, to one process at a time."""

from typing import Protocol


class Term(Protocol):
    """One time in office. It may end at any moment; the fence in the database is what makes that harmless."""

    office: str
    #: grows with every change of the holder
    number: int

    def is_valid(self) -> bool:
        """By our own clock, and false before anybody else may think so."""
        ...

    async def ended(self) -> None:
        """Returns when it is over."""
        ...

    async def resign(self) -> None:
        """Give the office back, so that nobody waits for the lease. Does nothing when it is over."""
        ...


class Election(Protocol):
    office: str

    @property
    def state(self) -> str:
        """One of "following" and "leading", or what is wrong."""
        ...

    @property
    def term(self) -> int:
        """The number of the newest term of this process; 0 before the first."""
        ...

    async def check(self) -> None:
        """InvalidSetting when it can never work as it is set up; what is away now may come back."""
        ...

    async def campaign(self) -> Term:
        """Returns when this process is elected. The former term must be over."""
        ...

    async def close(self) -> None: ...
