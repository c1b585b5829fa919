"""The relay's office: who holds it tells the world what happened, by one courier for each way out of the house."""

import contextlib
import functools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from virtflow.election import Term

#: starts a loop that begins again when it fails, and ends with the stack
StartLoop = Callable[[contextlib.AsyncExitStack, str, Callable[[], Coroutine[Any, Any, None]]], None]


class Courier(Protocol):
    """Tells one bus, or all receivers of webhooks. It shares nothing with the other couriers but the database."""

    name: str
    #: "ok", or what is wrong: for health
    state: str

    def knock(self) -> None:
        """Events were committed. Cheap, may come too often, and may be lost: the courier looks by the clock too."""
        ...

    async def run(self, term: Term) -> None:
        """Until cancelled. The database and who is told may come and go meanwhile.

        Nothing leaves the house once the term is over, which is looked at right before: who was stopped and wakes up
        would tell what somebody else has told long since.
        """
        ...

    async def close(self) -> None: ...


class Relay:
    """`settle` is awaited before the couriers set out: everything is brought in the order that they expect."""

    def __init__(self, couriers: Sequence[Courier], *, start: StartLoop, settle: Callable[[], Awaitable[None]]) -> None:
        self._couriers = couriers
        self._start = start
        self._settle = settle

    @property
    def states(self) -> dict[str, str]:
        """Courier, as its loop is called -> "ok", or what is wrong."""
        return {f"courier {courier.name}": courier.state for courier in self._couriers}

    def knock(self) -> None:
        for courier in self._couriers:
            courier.knock()

    async def work(self, term: Term) -> None:
        """All couriers beside each other, as long as the term lasts."""
        await self._settle()
        async with contextlib.AsyncExitStack() as stack:
            for courier in self._couriers:
                self._start(stack, f"courier {courier.name}", functools.partial(courier.run, term))
            await term.ended()

    async def close(self) -> None:
        for courier in self._couriers:
            await courier.close()
