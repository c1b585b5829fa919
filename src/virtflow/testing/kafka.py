"""Brokers that speak Kafka's protocol, for tests: the mock cluster of librdkafka as a child process.

What it holds lives in memory and ends with it; it can be paused, which clients see as brokers that do not answer.
"""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator

from aiokafka import AIOKafkaConsumer, TopicPartition

from virtflow.testing.children import die_with_parent

BROKERS = 3
START_S_MAX = 20.0
READ_MS = 50


class KafkaCluster:
    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        #: "host:port" with commas between
        self.servers = ""

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509  one system call and nothing else
        )
        assert self._process.stdout is not None
        self.servers = self._process.stdout.readline().strip()
        if not self.servers:
            raise RuntimeError("the mock cluster of Kafka did not start: is confluent-kafka installed?")

    def pause(self) -> None:
        """Connections stay open, and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    async def records(self, topic: str) -> list[tuple[bytes, bytes]]:
        """Key and value of everything in a topic, one partition after the other."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.servers.split(","), fetch_max_wait_ms=READ_MS)
        await consumer.start()
        try:
            return await _read(consumer, topic)
        finally:
            await consumer.stop()

    def _signal(self, what: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(what)


async def _read(consumer: AIOKafkaConsumer, topic: str) -> list[tuple[bytes, bytes]]:
    await consumer._client.force_metadata_update()
    partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
    consumer.assign(partitions)
    await consumer.seek_to_beginning()
    found: dict[TopicPartition, list[tuple[bytes, bytes]]] = {one: [] for one in partitions}
    for one, end in (await consumer.end_offsets(partitions)).items():
        while len(found[one]) < end:
            for place, records in (await consumer.getmany(timeout_ms=READ_MS)).items():
                found[place] += [(record.key, record.value) for record in records]
    return [record for one in partitions for record in found[one]]


@contextlib.contextmanager
def kafka_cluster() -> Iterator[KafkaCluster]:
    cluster = KafkaCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _serve() -> None:
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"test.mock.num.brokers": BROKERS, "client.id": "mock", "log_level": 2})
    brokers = client.list_topics(timeout=START_S_MAX).brokers.values()
    print(",".join(f"{broker.host}:{broker.port}" for broker in brokers), flush=True)
    while True:
        client.poll(1)


if __name__ == "__main__":
    _serve()
