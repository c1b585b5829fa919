"""New tasks on their way into the database, and the caller who waits for the answer."""

import asyncio

from virtflow.control.orders import Receipt
from virtflow.control.waiting import Waiting
from virtflow.model.views import VmView


class Submission:
    """All orders of one request; accepted together, answered together."""

    __slots__ = ("actor", "done", "receipt", "tasks", "views")

    def __init__(
        self,
        tasks: list[Waiting],
        *,
        actor: str,
        receipt: Receipt[list[VmView]] | None,
        done: asyncio.Future[list[VmView]],
    ) -> None:
        self.tasks = tasks
        self.actor = actor
        self.receipt = receipt
        self.done = done
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

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
