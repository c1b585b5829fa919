"""No broker: the event log itself tells the leader of new tasks, so there is nothing to carry."""

import asyncio
from collections.abc import Sequence

from virtflow.queue.contract import LookAt, SetAside


class DatabaseQueue:
    state = "ok"

    async def open(self) -> None:
        pass

    def call(self, ids: Sequence[bytes]) -> None:
        """The commit that accepted them has told everybody who follows the log."""

    def bury(self, ids: Sequence[bytes]) -> None:
        """The commit that ended them has written their letters."""

    async def publish(self) -> None:
        await asyncio.Event().wait()

    async def flush(self) -> None:
        pass

    async def listen(self, look_at: LookAt, set_aside: SetAside) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass
