"""What carries knocks from whoever accepted to whoever leads."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

#: returns when each of these tasks has its host or is known to wait: only then may the message be forgotten
LookAt = Callable[[Sequence[bytes]], Awaitable[None]]


class Queue(Protocol):
    #: "ok", or what is wrong: for health
    state: str

    def call(self, ids: Sequence[bytes]) -> None:
        """These tasks were accepted and wait. Never blocks, never fails; when it is lost the scan finds them."""
        ...

    async def publish(self) -> None:
        """Carries what was called, until cancelled: the loop of every process that accepts."""
        ...

    async def listen(self, look_at: LookAt) -> None:
        """Hands over what others called, until cancelled: the loop of the process that leads."""
        ...

    async def close(self) -> None: ...
