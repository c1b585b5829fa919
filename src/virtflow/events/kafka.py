"""Kafka: one topic of all events, keyed by the object, so that those of one object stay in one partition."""

import asyncio
import logging
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from virtflow.events.cloudevents import STRUCTURED, CloudEvent, as_json
from virtflow.events.line import ACKNOWLEDGE_S_MAX, Explained, LineSink

NAME = "kafka"

# it tells every try of every connection; we tell each change once
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def kafka_sink(servers: str, *, prefix: str) -> LineSink:
    async def connect() -> "_Line":
        return await _connect(servers, topic_of(prefix))

    return LineSink(NAME, connect=connect, explain=_explain)


def topic_of(prefix: str) -> str:
    return f"{prefix}.events"


async def _connect(servers: str, topic: str) -> "_Line":
    producer = AIOKafkaProducer(
        bootstrap_servers=servers.split(","),
        client_id="virtflow",
        enable_idempotence=True,  # what the library repeats by itself is stored once; acknowledged by all replicas
        request_timeout_ms=int(ACKNOWLEDGE_S_MAX * 1000 / 2),
    )
    line = _Line(producer, topic)
    try:
        await producer.start()
        await producer.partitions_for(topic)
    except BaseException:
        await line.close()
        raise
    return line


class _Line:
    def __init__(self, producer: AIOKafkaProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    async def send(self, wave: Sequence[CloudEvent]) -> None:
        acknowledged = [
            await self._producer.send(
                self._topic,
                value=as_json(event),
                key=event.subject.encode(),
                headers=[("content-type", STRUCTURED.encode())],
            )
            for event in wave
        ]
        await asyncio.gather(*acknowledged)

    async def close(self) -> None:
        # stop() would first wait until everything was sent, which may be never
        self._producer._closed = True
        sender = self._producer._sender.sender_task
        if sender is not None:
            sender.cancel()
            await self._producer.client.close()  # what is on its way fails, and nothing holds the sender any more
            await asyncio.wait({sender})
        await self._producer.client.close()  # and what it may have opened in its last moment


def _explain(error: Exception) -> Explained:
    match error:
        case KafkaConnectionError() | OSError():
            return Explained(
                "no broker listens there", remedy="see whether they run, and VIRTFLOW_EVENTS_KAFKA_SERVERS"
            )
        case UnknownTopicOrPartitionError():
            return Explained("the topic does not exist", remedy="create the topic <events_prefix>.events")
        case TopicAuthorizationFailedError():
            return Explained("it refuses us the topic", remedy="allow us to write to the topic <events_prefix>.events")
        case MessageSizeTooLargeError():
            return Explained("an event is larger than it takes", remedy="raise max.message.bytes of the topic")
        case KafkaError():
            return Explained(f"{type(error).__name__}: {error}", remedy="see what the brokers' logs say")
    return Explained(f"{type(error).__name__}: {error}")
