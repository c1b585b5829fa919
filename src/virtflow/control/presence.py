"""Who is there: each process says where it runs, and all leave the machines of all out."""

import asyncio
import contextlib
from collections.abc import Callable

import msgspec
import structlog

from virtflow.control.mirror import Mirror
from virtflow.model.errors import VirtflowError
from virtflow.model.health import Unwell
from virtflow.model.process import Process
from virtflow.store.contract import Store

log = structlog.get_logger(__name__)

#: so often a process says that it is here, and looks who else is
BEAT_S = 5.0
#: a machine counts for so long after the last word from it: a restart must let nothing slip onto it
KEPT_S = 600.0
BYE_S_MAX = 1.0


class Presence:
    """`changed` is called when other hosts than before carry virtflow; `unwell`: what is wrong here."""

    def __init__(
        self,
        process: Process,
        *,
        store: Store,
        mirror: Mirror,
        changed: Callable[[], None],
        unwell: Callable[[], tuple[Unwell, ...]] = tuple,
        beat_s: float = BEAT_S,
        kept_s: float = KEPT_S,
    ) -> None:
        self._process = process
        self._store = store
        self._mirror = mirror
        self._changed = changed
        self._unwell = unwell
        self._beat_s = beat_s
        self._kept_ms = int(kept_s * 1000)
        self._news = asyncio.Event()

    def listens_at(self, address: str) -> None:
        self._process = msgspec.structs.replace(self._process, address=address)
        self._news.set()

    async def run(self) -> None:
        """Until cancelled; then says goodbye. While the database is away, what was known last holds."""
        try:
            while True:
                self._news.clear()
                try:
                    await self.beat()
                except VirtflowError as error:
                    log.debug("presence.unsaid", error=error.detail)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._beat_s):
                        await self._news.wait()
        finally:
            await self._say_goodbye()

    async def _say_goodbye(self) -> None:
        """It does nothing any more; its machine still counts, for it may be started again."""
        gone = msgspec.structs.replace(self._process, roles=(), address="")
        with contextlib.suppress(VirtflowError, TimeoutError):
            async with asyncio.timeout(BYE_S_MAX), self._store.transaction() as tx:
                await tx.put_process(gone)

    async def beat(self) -> None:
        async with self._store.transaction() as tx:
            await tx.put_process(msgspec.structs.replace(self._process, unwell=self._unwell()))
            await tx.remove_silent_processes(silent_ms=self._kept_ms)
        machines = [process.node for process in await self._store.processes()]
        if self._mirror.see_machines(machines):
            log.info("self_hosts.changed", machines=",".join(sorted({*machines})))
            self._changed()
