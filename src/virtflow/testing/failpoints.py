"""Places on the walk where a test can make the process die, fail or be slow.

`VIRTFLOW_FAILPOINTS="tx.before_commit=kill@3 tx.take_room=raise"`: at the third pass of the first point the process
kills itself as `kill -9` would; each pass of the second raises. Only `virtflow.testing.crashable` reads it; the product
has no such hooks: the store is wrapped from outside.
"""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import msgspec

from virtflow.model.errors import Unavailable
from virtflow.store.contract import Store, Transaction

VARIABLE = "VIRTFLOW_FAILPOINTS"

#: every point of the walk: the beginning and the end of a transaction, each step in it, and the door
TRANSACTION_STEPS = (
    "take_fence",
    "check_fence",
    "move_tasks",
    "bind_instances",
    "take_room",
    "intern_shapes",
    "add_instances",
    "add_tasks",
    "remember_answers",
    "append_events",
    "remove_instances",
    "give_room",
    "add_hosts",
    "set_cordon",
)
#: the steps of an event on its way to a receiver
DELIVERY_STEPS = ("move_outlets", "add_deliveries", "settle_deliveries")
POINTS = (
    "api.received",
    "api.before_reply",
    "tx.begin",
    *(f"tx.{step}" for step in (*TRANSACTION_STEPS, *DELIVERY_STEPS)),
    "tx.before_commit",
    "tx.after_commit",
)
_SPEC = re.compile(r"(?P<point>[a-z_.]+)=(?P<action>kill|raise|delay):?(?P<ms>\d+)?(?:@(?P<nth>\d+))?")

App = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]


class Failpoint(msgspec.Struct, frozen=True):
    action: str
    ms: int
    #: 0 = at every pass
    nth: int


class Failpoints:
    """Counts the passes and acts at the chosen ones."""

    def __init__(self, points: Mapping[str, Failpoint]) -> None:
        self._points = dict(points)
        self._passes: dict[str, int] = {}

    @classmethod
    def parse(cls, text: str) -> "Failpoints":
        points = {}
        for word in text.split():
            match = _SPEC.fullmatch(word)
            if match is None or match["point"] not in POINTS:
                raise ValueError(f"{word!r} is no failpoint; points: {', '.join(POINTS)}")
            points[match["point"]] = Failpoint(match["action"], int(match["ms"] or 0), int(match["nth"] or 0))
        return cls(points)

    async def passing(self, point: str) -> None:
        chosen = self._points.get(point)
        if chosen is None:
            return
        self._passes[point] = self._passes.get(point, 0) + 1
        if chosen.nth and chosen.nth != self._passes[point]:
            return
        if chosen.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif chosen.action == "delay":
            await asyncio.sleep(chosen.ms / 1000)
        else:
            raise Unavailable(f"failpoint {point}", remedy="this is a test")


class FailingTransaction:
    """A transaction with a failpoint before each step."""

    def __init__(self, tx: Transaction, failpoints: Failpoints) -> None:
        self._tx = tx
        self._failpoints = failpoints

    def __getattr__(self, name: str) -> Any:
        step = getattr(self._tx, name)

        async def with_failpoint(*arguments: Any, **named: Any) -> Any:
            await self._failpoints.passing(f"tx.{name}")
            return await step(*arguments, **named)

        return with_failpoint


class FailingStore:
    """A store whose transactions have failpoints; everything else is the store's own."""

    def __init__(self, store: Store, failpoints: Failpoints) -> None:
        self._store = store
        self.failpoints = failpoints

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return self._with_failpoints()

    @contextlib.asynccontextmanager
    async def _with_failpoints(self) -> AsyncIterator[Transaction]:
        await self.failpoints.passing("tx.begin")
        async with self._store.transaction() as tx:
            yield cast(Transaction, FailingTransaction(tx, self.failpoints))
            await self.failpoints.passing("tx.before_commit")
        await self.failpoints.passing("tx.after_commit")


def failing_app(app: App, failpoints: Failpoints) -> App:
    """The door with a failpoint behind the request and one before the answer."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        await failpoints.passing("api.received")

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                await failpoints.passing("api.before_reply")
            await send(message)

        await app(scope, receive, sending)

    return guarded
