"""Which queue there is: RabbitMQ where a broker is named, else the database."""

from virtflow.model.secret import Secret
from virtflow.queue.contract import Observer, Queue
from virtflow.queue.database import DatabaseQueue


def open_queue(broker_url: Secret, *, prefetch: int, timeout_s: float, observer: Observer) -> Queue:
    """Opening connects to nobody yet."""
    if not broker_url:
        return DatabaseQueue()
    from virtflow.queue.rabbitmq import RabbitmqQueue  # its library costs every start that needs none 0.1 s

    return RabbitmqQueue(broker_url, prefetch=prefetch, timeout_s=timeout_s, observer=observer)
