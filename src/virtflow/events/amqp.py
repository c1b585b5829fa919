"""RabbitMQ: a durable topic exchange of all events. Who wants some binds a queue to it."""

import asyncio
import logging
from collections.abc import Sequence

import aio_pika
import aiormq.exceptions
from aio_pika.abc import AbstractConnection, AbstractExchange
from aio_pika.exceptions import (
    AMQPConnectionError,
    AMQPError,
    AuthenticationError,
    ChannelPreconditionFailed,
    DeliveryError,
    ProbableAuthenticationError,
)

from virtflow.events.cloudevents import STRUCTURED, CloudEvent, as_json
from virtflow.events.line import CONNECT_S_MAX, Explained, LineSink
from virtflow.model.secret import Secret

NAME = "amqp"
HEARTBEAT_S = 10
_TYPES = "virtflow."

# it tells every try of every connection; we tell each change once
logging.getLogger("aiormq.connection").setLevel(logging.CRITICAL)


def amqp_sink(url: Secret, *, prefix: str) -> LineSink:
    async def connect() -> "_Line":
        return await _connect(url, exchange_name(prefix))

    return LineSink(NAME, connect=connect, explain=_explain)


def exchange_name(prefix: str) -> str:
    return f"{prefix}.events"


def routing_key_of(event: CloudEvent) -> str:
    return event.type.removeprefix(_TYPES)


async def _connect(url: Secret, exchange: str) -> "_Line":
    connection = await aio_pika.connect(url.reveal(), timeout=CONNECT_S_MAX / 2, heartbeat=HEARTBEAT_S)
    try:
        channel = await connection.channel(publisher_confirms=True)
        return _Line(connection, await channel.declare_exchange(exchange, aio_pika.ExchangeType.TOPIC, durable=True))
    except BaseException:
        await connection.close()
        raise


class _Line:
    def __init__(self, connection: AbstractConnection, exchange: AbstractExchange) -> None:
        self._connection = connection
        self._exchange = exchange

    async def send(self, wave: Sequence[CloudEvent]) -> None:
        # what nobody bound a queue for is confirmed too, and gone: so it is with an exchange
        async with asyncio.TaskGroup() as group:
            for event in wave:
                message = aio_pika.Message(
                    as_json(event),
                    content_type=STRUCTURED,
                    message_id=event.id,
                    delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                )
                group.create_task(_published(self._exchange, message, routing_key_of(event)))

    async def close(self) -> None:
        await self._connection.close()


async def _published(exchange: AbstractExchange, message: aio_pika.Message, key: str) -> None:
    await exchange.publish(message, key, mandatory=False)


def _explain(error: Exception) -> Explained:
    if isinstance(error, ExceptionGroup):  # one for each message of a wave: the first says it for all
        return _explain(error.exceptions[0])
    match error:
        case ProbableAuthenticationError() | AuthenticationError():
            return Explained("it refuses our name and password", remedy="check them in VIRTFLOW_EVENTS_AMQP_URL")
        case aiormq.exceptions.ChannelAccessRefused():
            return Explained(
                "it refuses us the exchange", remedy="allow us to configure and write <events_prefix>.events"
            )
        case ChannelPreconditionFailed():
            return Explained(
                "there is another exchange of that name", remedy="delete it, or choose another events_prefix"
            )
        case DeliveryError():
            return Explained("it refused an event: a queue that is bound is full", remedy="empty or unbind that queue")
        case AMQPConnectionError() | OSError():
            return Explained("nobody listens there", remedy="see whether it runs, and VIRTFLOW_EVENTS_AMQP_URL")
        case AMQPError():
            return Explained(f"{type(error).__name__}: {error}", remedy="see what its log says")
    return Explained(f"{type(error).__name__}: {error}")
