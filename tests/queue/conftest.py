"""A queue at a real broker, with both of its loops running, and what came through it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import aio_pika
import pytest

from virtflow.model.secret import Secret, without_secrets
from virtflow.queue import DeadMessage
from virtflow.queue.rabbitmq import RabbitmqQueue
from virtflow.testing.queue import Tally

SOON_S = 30.0


async def soon(holds: Callable[[], bool | Awaitable[bool]], *, within_s: float = SOON_S) -> None:
    async with asyncio.timeout(within_s):
        while True:
            result = holds()
            if result if isinstance(result, bool) else await result:
                return
            await asyncio.sleep(0.01)


class Office:
    """Somebody who calls, and somebody who looks at what was called."""

    def __init__(self, queue: RabbitmqQueue, tally: Tally) -> None:
        self.queue = queue
        self.tally = tally
        self.looked_at: list[bytes] = []
        #: how many ids came with each message
        self.sizes: list[int] = []
        self.dead: list[DeadMessage] = []
        #: raised instead of looking, one after the other
        self.failures: list[Exception] = []
        #: while it is cleared, looking takes for ever
        self.may_look = asyncio.Event()
        self.may_look.set()
        self.under_way = 0

    async def look_at(self, ids: Sequence[bytes]) -> None:
        self.under_way += 1
        try:
            await self.may_look.wait()
            if self.failures:
                raise self.failures.pop(0)
            self.looked_at += ids
            self.sizes.append(len(ids))
        finally:
            self.under_way -= 1

    async def set_aside(self, message: DeadMessage) -> None:
        self.dead.append(message)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        async with running(self.queue.listen(self.look_at, self.set_aside)):
            yield

    @contextlib.asynccontextmanager
    async def publishing(self) -> AsyncIterator[None]:
        async with running(self.queue.publish()):
            yield

    async def has_seen(self, *ids: bytes) -> None:
        await soon(lambda: set(ids) <= set(self.looked_at))


@contextlib.asynccontextmanager
async def running(loop: Awaitable[None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(loop)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


MakeOffice = Callable[..., contextlib.AbstractAsyncContextManager[Office]]


@contextlib.asynccontextmanager
async def office_at(url: str, *, prefetch: int = 16, timeout_s: float = 5.0) -> AsyncIterator[Office]:
    """Open, and neither publishing nor listening yet."""
    tally = Tally()
    secret = Secret(url, shown=without_secrets(url))
    queue = RabbitmqQueue(secret, prefetch=prefetch, timeout_s=timeout_s, observer=tally)
    try:
        await queue.open()
        yield Office(queue, tally)
    finally:
        await queue.close()


@pytest.fixture
async def office(rabbitmq_url: str) -> AsyncIterator[Office]:
    """Publishing and listening."""
    async with office_at(rabbitmq_url) as office, office.publishing(), office.listening():
        yield office


def ids(count: int, *, first: int = 1) -> list[bytes]:
    return [number.to_bytes(16, "big") for number in range(first, first + count)]


# ── at the broker, past the queue ──────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def channel_at(url: str) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    async with await aio_pika.connect(url) as connection:
        yield await connection.channel()


async def put(url: str, *bodies: bytes) -> None:
    """As anybody else who knows the exchange."""
    async with channel_at(url) as channel:
        exchange = await channel.get_exchange("task", ensure=False)
        for body in bodies:
            await exchange.publish(aio_pika.Message(body), "task.schedule")


async def take_all(url: str, queue: str, count: int) -> list[aio_pika.abc.AbstractIncomingMessage]:
    """Waits for so many."""
    found: list[aio_pika.abc.AbstractIncomingMessage] = []
    async with channel_at(url) as channel, asyncio.timeout(SOON_S):
        asked = await channel.get_queue(queue)
        while len(found) < count:
            message = await asked.get(fail=False)
            if message is None:
                await asyncio.sleep(0.02)
                continue
            await message.ack()
            found.append(message)
    return found


async def waiting(url: str, queue: str) -> int:
    """Messages that nobody was handed."""
    async with channel_at(url) as channel:
        declared = await channel.declare_queue(queue, passive=True)
        return int(declared.declaration_result.message_count or 0)


@pytest.fixture(autouse=True, scope="session")
def _quiet_library() -> None:
    """As the service has it."""
    for library in ("aio_pika", "aiormq"):
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)
