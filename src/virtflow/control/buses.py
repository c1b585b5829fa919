"""The courier of one bus: reads the log from where the bus was told last, sends, and writes down how far."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from virtflow.control.outlets import Outlets
from virtflow.election import Term
from virtflow.events import Sink, SinkFailed, envelope
from virtflow.model.clock import Clock
from virtflow.model.errors import Gone, VirtflowError
from virtflow.model.event import Event
from virtflow.model.outlet import Outlet, OutletMove
from virtflow.store.contract import EventFilter, Store

log = structlog.get_logger(__name__)

#: sent before the cursor is moved; as many come twice when a relay dies in between
BATCH_MAX = 1_000
#: the log is looked at this often, even if nobody says that it grew
POLL_S = 1.0
#: after a failure; twice that after the next
RETRY_S, RETRY_S_MAX = 0.25, 30.0
_EVERYTHING = EventFilter()


class Observer(Protocol):
    """Who counts; main hands in the metrics."""

    def observe_told(self, outlet: str, events: int) -> None: ...
    def observe_failure(self, outlet: str) -> None: ...


class BusCourier:
    def __init__(
        self,
        sink: Sink,
        *,
        store: Store,
        outlets: Outlets,
        clock: Clock,
        observer: Observer,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = sink.name
        self.state = "ok"
        self._sink = sink
        self._store = store
        self._outlets = outlets
        self._clock = clock
        self._observer = observer
        self._chance = chance
        self._news = asyncio.Event()
        self._term: Term | None = None
        #: it took something, or would have, since we came into office and since it failed
        self._is_proven = False

    def knock(self) -> None:
        self._news.set()

    async def run(self, term: Term) -> None:
        self._term, self._is_proven, failures = term, False, 0
        try:
            while True:
                if not term.is_valid():
                    await asyncio.Event().wait()  # until cancelled, which is a matter of moments
                self._news.clear()
                try:
                    told = await self.step()
                except VirtflowError as error:
                    failures += 1
                    await self._failed(error)
                    await asyncio.sleep(self._wait_s(failures))
                else:
                    failures = 0
                    if not told:
                        await self._until_news()
        finally:
            self.state = "ok"  # who is not at work is not ill

    async def close(self) -> None:
        await self._sink.close()

    async def step(self) -> bool:
        """Tells the bus of what comes next; says whether there was anything."""
        outlet = await self._store.outlet(self.name)
        if outlet is None or not outlet.enabled:
            return False
        events = await self._read_after(outlet.cursor)
        if events:
            await self._tell(outlet, events)
        elif outlet.error or not self._is_proven:
            await self._prove(outlet)
        self._is_proven = True
        self._is_well()
        return bool(events)

    async def _prove(self, outlet: Outlet) -> None:
        """That it would take something: a wrong password is told before there is an event."""
        await self._sink.send([])
        if outlet.error:
            stays = OutletMove(name=self.name, was=outlet.cursor, now=outlet.cursor, at_ms=self._clock.now_ms())
            async with self._store.transaction() as tx:
                await tx.move_outlets([stays])

    async def _read_after(self, cursor: int) -> Sequence[Event]:
        try:
            return await self._store.events(_EVERYTHING, after=cursor, limit=BATCH_MAX)
        except Gone:
            # nobody who keeps house was there to say so
            oldest, _ = await self._store.event_range()
            await self._outlets.leave_behind(oldest)
            raise

    async def _tell(self, outlet: Outlet, events: Sequence[Event]) -> None:
        history_id = await self._store.history_id()
        if self._term is not None and not self._term.is_valid():
            return  # somebody else tells it
        try:
            await self._sink.send([envelope(event, history_id=history_id) for event in events])
        except SinkFailed as failure:
            if failure.taken:  # so that a bus which fails again and again gets on nevertheless
                await self._move(outlet, events[: failure.taken])
            raise
        await self._move(outlet, events)

    async def _move(self, outlet: Outlet, told: Sequence[Event]) -> None:
        """Refused when another relay told the bus meanwhile: then its cursor is where that one says."""
        move = OutletMove(name=self.name, was=outlet.cursor, now=told[-1].seq, at_ms=self._clock.now_ms())
        async with self._store.transaction() as tx:
            await tx.move_outlets([move])
        self._observer.observe_told(self.name, len(told))

    async def _failed(self, error: VirtflowError) -> None:
        said = f"{error.detail}: {error.remedy}" if error.remedy else error.detail
        self._observer.observe_failure(self.name)
        self._is_proven = False
        if self.state == "ok":  # one line for each change of state, not for each try
            log.warning("bus.failing", bus=self.name, error=said)
        self.state = f"failing: {said}"
        with suppress(VirtflowError):  # it may be the database that fails
            async with self._store.transaction() as tx:
                await tx.mark_outlet(self.name, error=said, at_ms=self._clock.now_ms())

    def _is_well(self) -> None:
        if self.state != "ok":
            log.info("bus.well_again", bus=self.name)
        self.state = "ok"

    def _wait_s(self, failures: int) -> float:
        """Longer and longer, and not at the same time as everybody else."""
        wait_s: float = min(RETRY_S_MAX, RETRY_S * 2 ** min(failures - 1, 10))
        return wait_s * (0.5 + self._chance())

    async def _until_news(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._news.wait()
