"""One connection to the broker: made when needed, dropped when it fails, and one log line for each change."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit, urlunsplit

import aio_pika
import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection

from virtflow.model.secret import Secret
from virtflow.queue.topology import declare
from virtflow.queue.trouble import FAILURES, Trouble, UnusableBroker, judge

log = structlog.get_logger(__name__)

T = TypeVar("T")

#: a connection that says nothing for three times this is dead
HEARTBEAT_S = 10
#: saying goodbye takes no longer
CLOSE_S_MAX = 1.0


class Link:
    """`name` says at the broker, and in the log, what the connection is for."""

    def __init__(self, url: Secret, *, name: str, timeout_s: float) -> None:
        self._url = url
        self._name = name
        self._timeout_s = timeout_s
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._abandoned: set[asyncio.Future[Any]] = set()
        #: set when the connection went away
        self.lost = asyncio.Event()
        #: "ok", or what is wrong
        self.state = "ok"

    @property
    def is_open(self) -> bool:
        return self._channel is not None and not self._channel.is_closed and not self.lost.is_set()

    async def channel(self) -> AbstractChannel:
        """Open, with everything declared. Trouble or UnusableBroker when that cannot be."""
        if self._channel is None or not self.is_open:
            await self.drop()
            self._channel = await self.within(self._open())
        return self._channel

    async def within(self, work: Coroutine[Any, Any, T], *, timeout_s: float | None = None) -> T:
        """Work at the broker, which is left alone when it takes too long: waiting for its end could take for ever."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task}, timeout=timeout_s or self._timeout_s)
            if not task.done():
                raise TimeoutError
            if task.cancelled():  # by the library, with the connection
                raise ConnectionResetError("the connection was lost")
            return task.result()
        except FAILURES as error:
            raise judge(error, self._url) from error
        finally:
            if not task.done():
                task.cancel()
                self._abandon(task)

    async def drop(self) -> None:
        """Goodbye is said beside the work."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            self._abandon(asyncio.ensure_future(_close(connection)))

    async def close(self) -> None:
        await self.drop()
        if self._abandoned:
            await asyncio.wait(self._abandoned, timeout=2 * CLOSE_S_MAX)

    def works(self) -> None:
        if self.state != "ok":
            log.info("broker.back", link=self._name)
        self.state = "ok"

    def failed(self, error: Trouble | UnusableBroker) -> None:
        words = error.words if isinstance(error, Trouble) else error.cause
        if self.state == "ok":  # one line for each change of state, not for each try
            log.warning("broker.lost", link=self._name, error=words, broker=str(self._url))
        self.state = f"degraded: {words}"

    async def _open(self) -> AbstractChannel:
        connection = await aio_pika.connect(_with_defaults(self._url.reveal(), self._name))
        self._connection = connection
        self.lost.clear()
        connection.close_callbacks.add(self._on_close)
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        channel.close_callbacks.add(self._on_close)
        await declare(channel)
        return channel

    def _on_close(self, whose: object, error: BaseException | None) -> None:
        """Also called for connections that were dropped: those are not ours any more."""
        if whose is self._channel or whose is self._connection:
            self.lost.set()

    def _abandon(self, task: asyncio.Future[Any]) -> None:
        self._abandoned.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that nobody warns about it


async def _close(connection: AbstractConnection) -> None:
    async with asyncio.timeout(CLOSE_S_MAX):
        await connection.close()


def _with_defaults(url: str, name: str) -> str:
    """What the URL says itself (`?heartbeat=30`) stays."""
    parts = urlsplit(url)
    known = {word.partition("=")[0] for word in parts.query.split("&")}
    more = {key: value for key, value in {"heartbeat": HEARTBEAT_S, "name": name}.items() if key not in known}
    return urlunsplit(parts._replace(query="&".join(filter(None, [parts.query, urlencode(more)]))))
