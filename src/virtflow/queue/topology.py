"""What there is at the broker: the exchange, the queue, and where dead letters go. Declared by whoever comes first."""

from collections.abc import Mapping
from typing import Any

from aio_pika import ExchangeType
from aio_pika.abc import AbstractChannel

EXCHANGE = "task"
QUEUE = ROUTING_KEY = "task.schedule"
#: tasks that failed for good
FAILED_KEY = "task.failed"
DEAD_EXCHANGE = "task.dlx"
DEAD_QUEUE = "task.schedule.dead"

#: messages that wait; beyond that the broker refuses more, and the log and the scan bring the tasks
MESSAGES_MAX = 100_000
#: the broker itself gives a message up after so many deliveries; we do before
DELIVERIES_MAX = 20

QUEUE_ARGUMENTS: dict[str, Any] = {
    "x-queue-type": "quorum",
    "x-max-length": MESSAGES_MAX,
    "x-overflow": "reject-publish",
    "x-delivery-limit": DELIVERIES_MAX,
    "x-dead-letter-exchange": DEAD_EXCHANGE,
    "x-dead-letter-strategy": "at-least-once",
}
#: of dead letters the newest stay: the database has them all
DEAD_QUEUE_ARGUMENTS: dict[str, Any] = {
    "x-queue-type": "quorum",
    "x-max-length": MESSAGES_MAX,
    "x-overflow": "drop-head",
}
#: every exchange is a durable topic exchange
EXCHANGES = (DEAD_EXCHANGE, EXCHANGE)
QUEUES: Mapping[str, Mapping[str, Any]] = {DEAD_QUEUE: DEAD_QUEUE_ARGUMENTS, QUEUE: QUEUE_ARGUMENTS}


async def declare(channel: AbstractChannel) -> None:
    """The way of dead letters first: nothing may find it missing."""
    dead = await channel.declare_exchange(DEAD_EXCHANGE, ExchangeType.TOPIC, durable=True)
    dead_queue = await channel.declare_queue(DEAD_QUEUE, durable=True, arguments=DEAD_QUEUE_ARGUMENTS)
    await dead_queue.bind(dead, "#")
    exchange = await channel.declare_exchange(EXCHANGE, ExchangeType.TOPIC, durable=True)
    queue = await channel.declare_queue(QUEUE, durable=True, arguments=QUEUE_ARGUMENTS)
    await queue.bind(exchange, ROUTING_KEY)
