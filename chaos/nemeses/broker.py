"""Harm to the broker: G11."""

import asyncio
import random
import time
from typing import Any

import aio_pika

from chaos.nemeses.nemesis import Nemesis
from chaos.scene import Scene
from chaos.world import PATIENCE_S, World

#: how long it may stay away, beside what its start takes
DOWN_S_MAX = 2.0
#: how long its wire may be silent: shorter and longer than the time in which a knock must be confirmed
SILENT_S_MIN, SILENT_S_MAX = 0.5, 8.0
#: what was placed sooner may have been on its way before
SETTLED_S = 0.2
#: knocks that are copied in a round, and how often each
COPIED, COPIES = 5, 50
_EXCHANGE, _KEY = "task", "task.schedule"
_HEAR_S_MAX = 30.0


async def kill(world: World, chance: random.Random) -> float:
    assert world.broker is not None
    await world.until(lambda: _is_used(world), "everybody at work with the broker")
    await world.some_load(chance.randint(5, 20))
    with world.fault():
        await asyncio.to_thread(world.broker.kill)
        struck_s = time.monotonic()
        placed = await world.watch.next_placement(after_s=struck_s, within_s=PATIENCE_S)
        await asyncio.sleep(chance.random() * DOWN_S_MAX)
        await asyncio.to_thread(world.broker.start)
    return placed.seen_s - struck_s


async def _is_used(world: World) -> bool:
    """All found it again: a broker that nobody is connected to is harmed without harm."""
    for process in world.cluster:
        health = await asyncio.to_thread(process.ask, "/healthz")
        if health is None or health.json()["parts"].get("broker") != "ok":
            return False
    return True


async def partition(world: World, chance: random.Random) -> float:
    """Nothing gets through to the broker or back for anybody, and no connection is closed."""
    wire = world.broker_wire
    assert wire is not None
    await world.until(lambda: _is_used(world), "everybody at work with the broker")
    await world.some_load(chance.randint(5, 20))
    with world.fault():
        wire.stall()
        struck_s = time.monotonic()
        try:
            placed = await world.watch.next_placement(after_s=struck_s + SETTLED_S, within_s=PATIENCE_S)
            await world.next_acceptance(after_s=struck_s + SETTLED_S)
            await asyncio.sleep(chance.uniform(SILENT_S_MIN, SILENT_S_MAX))
        finally:
            if chance.random() < 0.5:
                wire.cut()  # what was on its way is lost; otherwise it arrives late
            wire.flow()
    return placed.seen_s - struck_s


async def copy(world: World, chance: random.Random) -> float:
    """Every knock of a moment comes again and again, in no order."""
    assert world.broker is not None
    struck_s = time.monotonic()
    connection = await aio_pika.connect(world.broker.url())
    async with connection, connection.channel(publisher_confirms=False) as channel:
        exchange = await channel.get_exchange(_EXCHANGE)
        ear = await channel.declare_queue(exclusive=True)
        await ear.bind(exchange, _KEY)
        heard = await _heard(ear)
        again = [message for message in heard for _ in range(COPIES)]
        chance.shuffle(again)
        await ear.unbind(exchange, _KEY)
        for message in again:
            await exchange.publish(_copied(message), _KEY)
    placed = await world.watch.next_placement(after_s=time.monotonic(), within_s=PATIENCE_S)
    return placed.seen_s - struck_s


async def _heard(ear: Any) -> list[Any]:
    heard: list[Any] = []
    async with asyncio.timeout(_HEAR_S_MAX), ear.iterator(no_ack=True) as messages:
        async for message in messages:
            heard.append(message)
            if len(heard) == COPIED:
                break
    return heard


def _copied(message: Any) -> aio_pika.Message:
    return aio_pika.Message(
        message.body,
        headers=message.headers,
        content_type=message.content_type,
        delivery_mode=message.delivery_mode,
        message_id=message.message_id,
        type=message.type,
    )


NEMESES = (
    Nemesis(
        name="broker-kill", does=f"kill -9 of RabbitMQ, and its restart up to {DOWN_S_MAX:g} s later", goal="G11",
        measures="from the fault to the next placement, with the broker down", strike=kill, rounds=4,
        scene=Scene(brokered=True), p99_s_max=5.0,
    ),
    Nemesis(
        name="broker-partition", does="the wire of all processes to RabbitMQ is silent for some seconds", goal="G11",
        measures="from the fault to a placement, with the wire silent", strike=partition, rounds=6,
        scene=Scene(brokered=True, broker_wired=True), p99_s_max=5.0,
    ),
    Nemesis(
        name="duplicates", does=f"{COPIED} knocks come {COPIES} times more each, in no order", goal="G11",
        measures="from the first copy to the next placement after the last", strike=copy, rounds=20,
        scene=Scene(brokered=True),
    ),
)  # fmt: skip
