"""Follows the event log: what other processes wrote finds its way into the mirror, in order."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

import structlog

from virtflow.control.mirror import Mirror
from virtflow.control.waiting import WaitingRoom
from virtflow.model.errors import Gone, VirtflowError
from virtflow.model.event import Event, EventType
from virtflow.model.names import id_from_text
from virtflow.model.resources import Resources, plus
from virtflow.store.contract import Store

log = structlog.get_logger(__name__)

#: the log is looked at this often, even if nobody says that it grew
POLL_S = 1.0
RETRY_S_MAX = 2.0
#: where others write all the time, what they wrote is taken in so often and not at each of their commits: every process
#: would do the work of all. Who leads waits less, since what others accepted waits for him.
REST_S, LEADERS_REST_S = 0.05, 0.005
_OF_HOSTS = "host."
_OF_POOLS = "pool."
_ENDS = (EventType.TASK_COMPLETED, EventType.TASK_FAILED, EventType.TASK_CANCELLED, EventType.VM_DELETED)


class Follower:
    """`tell` is called whenever the log grew, `opened` when what others did may let a task through.

    `accepted` is awaited with the tasks that others accepted. `leads`: whether this process does.
    """

    def __init__(
        self,
        *,
        store: Store,
        mirror: Mirror,
        waiting: WaitingRoom,
        tell: Callable[[], None],
        opened: Callable[[], None],
        accepted: Callable[[Sequence[bytes]], Awaitable[None]],
        leads: Callable[[], bool],
    ) -> None:
        self._leads = leads
        self._store = store
        self._mirror = mirror
        self._waiting = waiting
        self._tell = tell
        self._opened = opened
        self._accepted = accepted
        self._news = asyncio.Event()
        #: one at a time: events are applied in order, each once
        self._following = asyncio.Lock()
        #: the mirror was loaded once
        self.is_warm = False
        #: "ok", or what is wrong: for health
        self.state = "starting"

    def nudge(self) -> None:
        """The log grew. Cheap, may be called too often."""
        self._news.set()

    async def load(self) -> None:
        """The whole mirror anew. No round may be on its way."""
        async with self._following:
            await self._mirror.load(self._store)
        self.is_warm, self.state = True, "ok"

    async def catch_up(self) -> None:
        """Returns when everything that others had committed before the call is in the mirror."""
        if not self._store.origin:
            return  # there are no others
        async with self._following:
            while await self._follow_on():
                pass

    async def run(self) -> None:
        """Until cancelled. The database may come and go."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hear())
            group.create_task(self._follow())

    async def _hear(self) -> None:
        wait_s = 0.05
        while True:
            try:
                await self._store.hear(self._heard)
            except VirtflowError:
                wait_s = min(RETRY_S_MAX, wait_s * 2)  # the poll goes on meanwhile
            await asyncio.sleep(wait_s)

    def _heard(self) -> None:
        self._news.set()
        self._tell()

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(POLL_S):
                    await self._news.wait()
            except TimeoutError:
                pass  # the clock: news may be lost
            self._news.clear()
            await self._catch_up_if_possible()
            await asyncio.sleep(LEADERS_REST_S if self._leads() else REST_S)

    async def _catch_up_if_possible(self) -> None:
        try:
            await self.catch_up()
        except VirtflowError as error:
            if self.state == "ok":  # one line for each change of state, not for each try
                log.warning("follower.behind", error=error.detail)
            self.state = f"behind: {error.detail}"
        else:
            if self.state != "ok":
                log.info("follower.up_to_date")
            self.state = "ok"

    async def _follow_on(self) -> bool:
        """One step; says whether there was more when it began."""
        before = self._mirror.position
        try:
            events, upto, has_more = await self._store.changes(after=before)
        except Gone:
            # whoever sleeps for so long starts over; rounds on their way find out at their commit
            await self._mirror.load(self._store)
            return True
        if events:
            await self._apply(events)
            self._tell()
        self._mirror.followed(upto)
        return has_more

    async def _apply(self, events: Sequence[Event]) -> None:
        opening = self._mirror.opening
        hosts = {event.id for event in events if event.type.startswith(_OF_HOSTS)}
        pools = {event.id for event in events if event.type.startswith(_OF_POOLS)}
        if hosts or pools:
            await self._mirror.reread(self._store, hosts=hosts, pools=pools)
        rooms = self._rooms(events)
        if any(name not in self._mirror.fleet for name in rooms):
            await self._mirror.settle()  # a host that was made here a moment ago
        for name, (taken, instances) in rooms.items():
            self._mirror.change_room(name, taken, instances)
        ended = {event.id for event in events if event.type in _ENDS}
        self._waiting.remove(map(id_from_text, ended))
        accepted = [event.id for event in events if event.type is EventType.TASK_ACCEPTED and event.id not in ended]
        if accepted:
            await self._accepted([*map(id_from_text, accepted)])
        if self._mirror.opening != opening:
            self._opened()

    def _rooms(self, events: Sequence[Event]) -> dict[str, tuple[Resources, int]]:
        """What all of them together took from each host."""
        rooms: dict[str, tuple[Resources, int]] = defaultdict(lambda: ({}, 0))
        for event in events:
            if isinstance(event.delta, dict) and not self._mirror.knows_already(event.host, event.seq):
                taken, instances = rooms[event.host]
                one = -1 if event.type is EventType.VM_DELETED else 1
                rooms[event.host] = (plus(taken, event.delta), instances + one)
        return rooms
