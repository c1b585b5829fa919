"""Reading what happened, once or for ever."""

import asyncio
from collections.abc import AsyncIterator

from virtflow.model.errors import HistoryOver
from virtflow.model.event import Event
from virtflow.model.views import EventPage
from virtflow.store.contract import EventFilter, Store

_READ_AT_ONCE = 500
_EVERYTHING = EventFilter()


class EventFeed:
    """Followers are woken by this process's own commits, and by the clock for those of others."""

    def __init__(self, store: Store, *, poll_s: float = 1.0) -> None:
        self._store = store
        self._poll_s = poll_s
        #: there only while somebody waits for it
        self._news: asyncio.Event | None = None
        self._closed = False

    def tell(self) -> None:
        """Something was committed. Wakes all followers, costs nothing when there are none."""
        if self._news is not None:
            self._news.set()
            self._news = None

    def close(self) -> None:
        self._closed = True
        self.tell()

    @property
    def is_closed(self) -> bool:
        return self._closed

    async def history_id(self) -> str:
        return await self._store.history_id()

    async def check(self, *, after: int, history_id: str | None) -> None:
        """Whoever follows from there on must have read what this log tells. HistoryOver, else; Gone when too old."""
        if history_id is not None:
            await self._store.check_history(history_id, after=after)
        page = await self.read(_EVERYTHING, after=after, limit=1)
        if after > page.newest:
            raise HistoryOver(
                f"event {after} was never written here, the newest is {page.newest}",
                remedy="read the present state, and go on from `newest`: the database is another one, or was restored",
            )

    async def read(self, where: EventFilter, *, after: int, limit: int, history_id: str | None = None) -> EventPage:
        """`history_id`: the one read up to `after`, if the caller says so."""
        if history_id is not None:
            await self._store.check_history(history_id, after=after)
        oldest, newest = await self._store.event_range()
        items = await self._store.events(where, after=after, limit=limit)
        return EventPage(
            items=items,
            # a full page ends at its last event; a page that is not full saw everything up to the newest, and nobody
            # waits at a number that is still to come
            next_after=items[-1].seq if len(items) == limit else max(newest, items[-1].seq if items else 0),
            oldest=oldest,
            newest=newest,
            history_id=await self._store.history_id(),
        )

    async def follow(self, where: EventFilter, *, after: int | None) -> AsyncIterator[list[Event]]:
        """Endless, in order, without gaps. Ends when the service stops."""
        if after is None:
            after = (await self._store.event_range())[1]
        while not self._closed:
            news = self._news = self._news or asyncio.Event()
            page = await self.read(where, after=after, limit=_READ_AT_ONCE)
            after = page.next_after
            if page.items:
                yield page.items
                continue
            if page.newest > after:
                continue
            try:
                async with asyncio.timeout(self._poll_s):
                    await news.wait()
            except TimeoutError:
                pass  # the clock: another process may have committed
