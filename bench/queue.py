"""The way of a knock: how many a broker carries, and how long a task waits for its host with a broker and without.

`python -m bench queue`
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from typing import NamedTuple

import aio_pika

from bench.machine import percentile
from bench.postgres import postgresql_in
from virtflow.config import Config, load_config
from virtflow.control.orders import VmOrder
from virtflow.engine import strategies
from virtflow.engine.decide import warm_up
from virtflow.main import Service, build
from virtflow.main.logs import set_up_logging
from virtflow.model.host import HostSpec
from virtflow.model.knock import write_knock
from virtflow.model.limits import IDS_PER_MESSAGE_MAX
from virtflow.model.secret import Secret
from virtflow.model.shape import shape
from virtflow.queue.rabbitmq import RabbitmqQueue
from virtflow.testing.election import Assembly
from virtflow.testing.queue import Tally
from virtflow.testing.rabbitmq import RabbitmqServer, rabbitmq_server

NOBODY_THERE = "amqp://127.0.0.1:1/"
SIZE = shape({"cpu": 100, "memory": 64})
#: the clock finds nothing in the time of a measurement: what is placed was heard of
TICK_S = "600"


class Carried(NamedTuple):
    """Knocks through a broker, called and looked at in one process."""

    knocks_per_s: float
    #: one id per message, called one after the other: published, confirmed, handed over
    alone_per_s: float
    #: the library without us: the same messages, published and confirmed one after the other
    library_per_s: float


class Delays(NamedTuple):
    """From the answer 202 of one process to the host that the other gave, in milliseconds."""

    p50_ms: float
    p99_ms: float
    accepted_per_s: float


class Found(NamedTuple):
    carried: Carried
    by_broker: Delays
    broker_down: Delays
    database: Delays


def measure(folder: Path, *, quick: bool) -> Found:
    warm_up()
    set_up_logging(_config("", ""))
    knocks, alone, tasks = (20_000, 200, 60) if quick else (200_000, 2_000, 400)
    with rabbitmq_server() as broker, postgresql_in(folder) as database:
        carried = asyncio.run(_carry(broker, knocks=knocks, alone=alone))
        found = [asyncio.run(_place(database, url, tasks=tasks)) for url in (broker.new_vhost(), NOBODY_THERE, "")]
    return Found(carried, *found)


# ── through the broker ─────────────────────────────────────────────────────────────────────────────


async def _carry(broker: RabbitmqServer, *, knocks: int, alone: int) -> Carried:
    queue = RabbitmqQueue(Secret(broker.url()), prefetch=16, timeout_s=30, observer=Tally())
    seen = _Counter()
    await queue.open()
    loops = [asyncio.create_task(loop) for loop in (queue.publish(), queue.listen(seen.look_at, seen.set_aside))]
    queue.call(_ids(1))
    await seen.reached(1)
    try:
        many_s = await _timed(_in_bulk(queue, seen, knocks))
        alone_s = await _timed(_one_by_one(queue, seen, alone))
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await queue.close()
    return Carried(knocks / many_s, alone / alone_s, alone / await _timed(_without_us(broker.new_vhost(), alone)))


class _Counter:
    def __init__(self) -> None:
        self.seen = 0
        self._goal = 0
        self._reached = asyncio.Event()

    async def look_at(self, ids: Sequence[bytes]) -> None:
        self.seen += len(ids)
        if self.seen >= self._goal:
            self._reached.set()

    async def set_aside(self, message: object) -> None:
        raise AssertionError(f"a knock was not understood: {message}")

    async def reached(self, goal: int) -> None:
        self._goal = goal
        self._reached.clear()
        if self.seen < goal:
            await self._reached.wait()


async def _in_bulk(queue: RabbitmqQueue, seen: _Counter, knocks: int) -> None:
    goal = seen.seen + knocks
    for _ in range(0, knocks, IDS_PER_MESSAGE_MAX):
        queue.call(_ids(IDS_PER_MESSAGE_MAX))
        await asyncio.sleep(0)
    await seen.reached(goal)


async def _one_by_one(queue: RabbitmqQueue, seen: _Counter, knocks: int) -> None:
    for _ in range(knocks):
        goal = seen.seen + 1
        queue.call(_ids(1))
        await seen.reached(goal)


async def _without_us(url: str, messages: int) -> None:
    """The same kind of queue and message, and nothing else: what a confirmed message costs at least."""
    body = write_knock(_ids(1))
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        await channel.declare_queue("plain", durable=True, arguments={"x-queue-type": "quorum"})
        for number in range(messages):
            message = aio_pika.Message(body, message_id=str(number), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, "plain")


# ── from acceptance to a host ──────────────────────────────────────────────────────────────────────


async def _place(database: str, broker: str, *, tasks: int) -> Delays:
    """Two processes' worth of virtflow: one accepts, the other leads and places."""
    assembly = Assembly()
    async with _running(database, broker, assembly) as leader, _running(database, broker, assembly) as other:
        follower = other if leader.scheduler.is_leading else leader
        host = HostSpec(name=f"bm-{id(assembly)}", capacity={"cpu": 10**9, "memory": 10**9, "disk": 1, "vms": 10**6})
        await leader.house.hosts.register([host], actor="bench")
        await follower.follower.catch_up()
        delays: list[float] = []
        began_s = time.perf_counter()
        accepting_s = 0.0
        for _ in range(tasks):
            started_s = time.perf_counter()
            (view,) = await follower.house.vms.create([VmOrder(shape=SIZE)], together=False, actor="bench")
            answered_s = time.perf_counter()
            accepting_s += answered_s - started_s
            while (await follower.house.vms.get(view.instance.name)).instance.host is None:
                await asyncio.sleep(0.0005)
            delays.append((time.perf_counter() - answered_s) * 1000)
        assert time.perf_counter() - began_s < float(TICK_S)
        return Delays(percentile(delays, 50), percentile(delays, 99), tasks / accepting_s)


@contextlib.asynccontextmanager
async def _running(database: str, broker: str, assembly: Assembly) -> AsyncIterator[Service]:
    service = build(_config(database, broker), inventories=[], election=assembly.candidate())
    async with service.running():
        yield service


def _config(database: str, broker: str) -> Config:
    flags = {"tick_s": TICK_S, "log_level": "error", "database_url": database, "broker_url": broker}
    given = {name: value for name, value in flags.items() if value}
    return load_config(environ={"HOME": "/"}, known_strategies=strategies.names(), flags=given)


def _ids(count: int) -> list[bytes]:
    return [number.to_bytes(16, "big") for number in range(1, count + 1)]


async def _timed(work: Awaitable[None]) -> float:
    started_s = time.perf_counter()
    await work
    return time.perf_counter() - started_s
