"""Real buses for these tests: servers are shared, each test has its own names on them."""

import itertools
from collections.abc import Iterator

import pytest
from tests.events.buses import AmqpBus, Bus, KafkaBus, MemoryBus, NatsBus

from virtflow.testing.kafka import KafkaCluster, kafka_cluster
from virtflow.testing.nats import NatsServer, nats_server
from virtflow.testing.rabbitmq import RabbitmqServer, rabbitmq_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def nats() -> Iterator[NatsServer]:
    with nats_server() as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    with kafka_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def mortal_rabbitmq() -> Iterator[RabbitmqServer]:
    """Not the shared one: it is killed."""
    with rabbitmq_server() as server:
        yield server


def make_bus(kind: str, request: pytest.FixtureRequest) -> Bus:
    prefix = f"test-{next(_numbers)}"
    if kind == "memory":
        return MemoryBus()
    if kind == "nats":
        return NatsBus(request.getfixturevalue("nats"), prefix)
    if kind == "kafka":
        return KafkaBus(request.getfixturevalue("kafka"), prefix)
    server = request.getfixturevalue("mortal_rabbitmq")
    return AmqpBus(server, server.new_vhost(), prefix)


RABBITMQ = [pytest.mark.service("rabbitmq"), pytest.mark.slow]  # it takes seconds to start


REAL = ["nats", "kafka", pytest.param("amqp", marks=RABBITMQ)]


@pytest.fixture(params=REAL)
def real_bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    yield from lent(make_bus(request.param, request))


@pytest.fixture(params=["memory", *REAL])
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    yield from lent(make_bus(request.param, request))


def lent(bus: Bus) -> Iterator[Bus]:
    """A test that fails while the bus is away spoils nothing for the next one."""
    yield bus
    if bus.is_away:
        bus.come_back()
