"""New tasks on their way into the database, and the caller who waits for the answer."""

import asyncio

from virtflow.control.orders import Cause, Receipt
from virtflow.control.waiting import Waiting
from virtflow.model.errors import OutcomeUnknown
from virtflow.model.views import VmView


class StillUnderWay(OutcomeUnknown):
    """The caller was patient enough; the commit goes on, and `over` is done when that has ended."""

    def __init__(self, over: asyncio.Future[None]) -> None:
        super().__init__(
            "the database did not answer in time", remedy="repeat with the same Idempotency-Key to learn the outcome"
        )
        self.over = over


class Submission:
    """All orders of one request; accepted together, answered together."""

    __slots__ = ("actor", "cause", "done", "due_s", "letter", "over", "receipt", "tasks", "views")

    def __init__(
        self,
        tasks: list[Waiting],
        *,
        actor: str,
        cause: Cause,
        receipt: Receipt[list[VmView]] | None,
        done: asyncio.Future[list[VmView]],
        letter: str = "",
    ) -> None:
        """`letter`: the dead letter that is sent again by this."""
        self.tasks = tasks
        self.actor = actor
        self.cause = cause
        self.receipt = receipt
        self.done = done
        #: by the monotonic clock; given at the door
        self.due_s = 0.0
        #: there only when the caller was answered before the end
        self.over: asyncio.Future[None] | None = None
        self.letter = letter
        #: filled by the commit, in the order of the tasks
        self.views: list[VmView] = []

    async def ended(self) -> None:
        """The caller was cancelled, the commit goes on: until it ends, the request's names and key are taken."""
        if self.done.cancelled():  # with its caller; the commit needs another one to tell
            self.done = asyncio.get_running_loop().create_future()
            await asyncio.wait([self.done])
            self.done.exception()

    def settle(self) -> None:
        if not self.done.done():
            self.done.set_result(self.views)
        self._is_over()

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
        self._is_over()

    def answer_before_the_end(self) -> None:
        self.over = asyncio.get_running_loop().create_future()
        self.done.set_exception(StillUnderWay(self.over))

    def _is_over(self) -> None:
        if self.over is not None and not self.over.done():
            self.over.set_result(None)
