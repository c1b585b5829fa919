"""What carries knocks from whoever accepted to whoever leads."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

#: returns when each of these tasks has its host or is known to wait: only then may the message be forgotten
LookAt = Callable[[Sequence[bytes]], Awaitable[None]]


class DeadMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that cannot be obeyed: it is written down, and nobody is given it again."""

    #: malformed_message, undeliverable_message
    code: str
    reason: str
    body: bytes


#: returns when it was written down
SetAside = Callable[[DeadMessage], Awaitable[None]]


class Observer(Protocol):
    """Who wants to know how messages fare."""

    def observe_published(self, outcome: str) -> None:
        """Each try: confirmed, or why not."""
        ...

    def observe_confirmed(self, tasks: Sequence[bytes]) -> None:
        """The broker has the message that calls these out."""
        ...

    def observe_lost_calls(self, tasks: int) -> None:
        """So many tasks were not called out; the log and the scan find them."""
        ...

    def observe_consumed(self, outcome: str) -> None:
        """Each message: looked_at, retried, dead."""
        ...


class Queue(Protocol):
    @property
    def state(self) -> str:
        """ "ok", or what is wrong. Work goes on either way: health notes it and stays green."""
        ...

    async def open(self) -> None:
        """Connects. InvalidSetting for a mistake that waiting cannot mend; who is merely not there is tried again."""
        ...

    def call(self, ids: Sequence[bytes]) -> None:
        """These tasks were accepted and wait. Never blocks, never fails; when it is lost the scan finds them."""
        ...

    def bury(self, ids: Sequence[bytes]) -> None:
        """These tasks failed: for whoever watches the dead letters. Never blocks, never fails."""
        ...

    async def publish(self) -> None:
        """Carries what was called, until cancelled: the loop of every process."""
        ...

    async def flush(self) -> None:
        """Returns when all that was called is carried or given up; in a bounded time. `publish` must be running."""
        ...

    async def listen(self, look_at: LookAt, set_aside: SetAside) -> None:
        """Hands over what was called, until cancelled: the loop of the process that leads."""
        ...

    async def close(self) -> None: ...
