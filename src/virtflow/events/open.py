"""Which buses there are: NATS, Kafka, RabbitMQ, and those of other packages."""

from collections.abc import Callable
from importlib.metadata import entry_points

from virtflow.events.contract import Sink
from virtflow.model.errors import InvalidSetting
from virtflow.model.kafka import read_servers
from virtflow.model.secret import Secret

#: An entry point of this group is a function from a location and the prefix of names to a sink.
PLUGINS = "virtflow.sinks"
OpenPlugin = Callable[[str, str], Sink]


def open_sinks(
    *, nats_url: Secret, kafka_servers: Secret, amqp_url: Secret, plugin: str = "", prefix: str
) -> list[Sink]:
    """Those that are set. Opening connects to nobody yet. Their libraries are loaded only where they are used."""
    opened: list[Sink] = []
    if nats_url:
        from virtflow.events.nats import nats_sink

        opened.append(nats_sink(nats_url, prefix=prefix))
    if kafka_servers:
        opened.append(_open_kafka(kafka_servers, prefix))
    if amqp_url:
        from virtflow.events.amqp import amqp_sink

        opened.append(amqp_sink(amqp_url, prefix=prefix))
    if plugin:
        opened.append(open_plugin(plugin, prefix=prefix))
    return opened


def _open_kafka(servers: Secret, prefix: str) -> Sink:
    try:
        from virtflow.events.kafka import kafka_sink
    except ImportError as error:
        raise InvalidSetting(
            "events_kafka_servers",
            str(servers),
            expected="the extra `kafka` to be installed: pip install 'virtflow[kafka]'",
        ) from error
    return kafka_sink(read_servers(servers.reveal()), prefix=prefix)


def open_plugin(setting: str, *, prefix: str) -> Sink:
    """`<entry point>=<location>`: the bus of another package."""
    name, _, location = setting.partition("=")
    installed = {point.name: point for point in entry_points(group=PLUGINS)}
    if name not in installed:
        known = ", ".join(sorted(installed)) or "none is installed"
        raise InvalidSetting("events_plugin", name, expected=f"an entry point of the group {PLUGINS} ({known})")
    opener: OpenPlugin = installed[name].load()
    return opener(location, prefix)
