"""Every bus, as the contract suite sees it: what the sink needs, what arrived, and an outage in the middle."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Protocol

import aio_pika
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from cloudevents.core.v1.event import CloudEvent as Judge

from virtflow.events import Sink
from virtflow.events.cloudevents import STRUCTURED, as_json
from virtflow.events.open import open_sinks
from virtflow.model.secret import Secret
from virtflow.testing.kafka import KafkaCluster
from virtflow.testing.nats import NatsServer
from virtflow.testing.rabbitmq import RabbitmqServer
from virtflow.testing.sink import MemorySink


class Bus(Protocol):
    #: of its outlet
    name: str
    #: settings of the service that name it
    settings: dict[str, str]
    is_away: bool

    def open(self) -> Sink: ...

    async def ready(self) -> None:
        """Whoever listens has begun to listen."""
        ...

    async def bodies(self) -> Sequence[bytes]:
        """Everything that arrived so far; of one object in the order in which it did."""
        ...

    def go_away(self) -> None: ...
    def come_back(self) -> None: ...


class _Server:
    """What all servers have in common: they go away and come back."""

    is_away = False

    def go_away(self) -> None:
        self.is_away = True
        self._go_away()

    def come_back(self) -> None:
        self._come_back()
        self.is_away = False

    def _go_away(self) -> None:
        raise NotImplementedError

    def _come_back(self) -> None:
        raise NotImplementedError


class NatsBus(_Server):
    name = "nats"

    def __init__(self, server: NatsServer, prefix: str) -> None:
        self._server, self._prefix = server, prefix
        self.settings = {"events_nats_url": server.url, "events_prefix": prefix}

    def open(self) -> Sink:
        return open_sink(self.settings)

    async def ready(self) -> None:
        """The stream keeps everything."""

    async def bodies(self) -> Sequence[bytes]:
        return await self._server.bodies(f"{self._prefix}-events")

    def _go_away(self) -> None:
        self._server.kill()

    def _come_back(self) -> None:
        self._server.start()


class KafkaBus(_Server):
    name = "kafka"

    def __init__(self, cluster: KafkaCluster, prefix: str) -> None:
        self._cluster, self._prefix = cluster, prefix
        self.settings = {"events_kafka_servers": cluster.servers, "events_prefix": prefix}

    def open(self) -> Sink:
        return open_sink(self.settings)

    async def ready(self) -> None:
        """The topic keeps everything."""

    async def bodies(self) -> Sequence[bytes]:
        records = await self._cluster.records(f"{self._prefix}.events")
        assert all(json.loads(body)["subject"] == key.decode() for key, body in records)
        return [body for _, body in records]

    def _go_away(self) -> None:
        self._cluster.pause()  # what it holds would not survive a kill

    def _come_back(self) -> None:
        self._cluster.resume()


class AmqpBus(_Server):
    name = "amqp"

    def __init__(self, server: RabbitmqServer, url: str, prefix: str) -> None:
        self._server, self._url, self._prefix = server, url, prefix
        self._taken: list[bytes] = []
        self.settings = {"events_amqp_url": url, "events_prefix": prefix}

    def open(self) -> Sink:
        return open_sink(self.settings)

    async def ready(self) -> None:
        """An exchange keeps nothing: a durable queue of everything is bound to it."""
        async with self._channel() as channel:
            exchange = await channel.declare_exchange(
                f"{self._prefix}.events", aio_pika.ExchangeType.TOPIC, durable=True
            )
            await (await channel.declare_queue(self._queue, durable=True)).bind(exchange, "#")

    async def bodies(self) -> Sequence[bytes]:
        async with self._channel() as channel:
            queue = await channel.get_queue(self._queue)
            while (message := await queue.get(fail=False)) is not None:
                await message.ack()
                self._taken.append(message.body)
        return self._taken

    def _go_away(self) -> None:
        self._server.kill()

    def _come_back(self) -> None:
        self._server.start()

    @property
    def _queue(self) -> str:
        return f"{self._prefix}.everything"

    @contextlib.asynccontextmanager
    async def _channel(self) -> AsyncIterator[Any]:
        connection = await aio_pika.connect(self._url)
        async with connection:
            yield await connection.channel()


class MemoryBus(_Server):
    """The fake that other tests use: held to the same."""

    name = "memory"

    def __init__(self) -> None:
        self._sink = MemorySink()
        self.settings: dict[str, str] = {}

    def open(self) -> Sink:
        return self._sink

    async def ready(self) -> None:
        """It keeps everything."""

    async def bodies(self) -> Sequence[bytes]:
        return [as_json(event) for event in self._sink.arrived]

    def _go_away(self) -> None:
        self._sink.is_away = True

    def _come_back(self) -> None:
        self._sink.is_away = False


def open_sink(settings: dict[str, str]) -> Sink:
    [sink] = open_sinks(
        nats_url=Secret(settings.get("events_nats_url", "")),
        kafka_servers=Secret(settings.get("events_kafka_servers", "")),
        amqp_url=Secret(settings.get("events_amqp_url", "")),
        prefix=settings["events_prefix"],
    )
    return sink


def judged(body: bytes) -> Judge:
    """By the package of those who keep the standard."""
    found = from_structured_event(HTTPMessage(headers={"content-type": STRUCTURED}, body=body))
    assert isinstance(found, Judge)
    return found


def first_arrivals(bodies: Sequence[bytes]) -> Iterator[Judge]:
    """What a receiver keeps who drops the ids that it has seen. The same id is the same event, byte for byte."""
    seen: dict[str, bytes] = {}
    for body in bodies:
        event = judged(body)
        if event.get_id() not in seen:
            yield event
        assert seen.setdefault(event.get_id(), body) == body


def versions(bodies: Sequence[bytes]) -> dict[str, list[int]]:
    """By object, in the order of first arrival."""
    found: dict[str, list[int]] = {}
    for event in first_arrivals(bodies):
        data: Any = event.get_data()
        found.setdefault(str(event.get_subject()), []).append(data["version"])
    return found
