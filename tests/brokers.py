"""A real RabbitMQ for whoever tests with one: one broker for each process of tests, a virtual host for each test."""

from collections.abc import Iterator

import pytest

from virtflow.testing.rabbitmq import RabbitmqServer, rabbitmq_server


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitmqServer]:
    """Shared by many tests: never stopped. Who wants to kill one starts his own."""
    with rabbitmq_server() as server:
        yield server


@pytest.fixture
def rabbitmq_url(rabbitmq: RabbitmqServer) -> str:
    """An empty virtual host that no other test uses."""
    return rabbitmq.new_vhost()
