"""Kafka: one topic of all events, keyed by the object, so that those of one object stay in one partition."""

import asyncio
import logging
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.conn import create_conn
from aiokafka.errors import (
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedSaslMechanismError,
)

from virtflow.events.cloudevents import STRUCTURED, CloudEvent, as_json
from virtflow.events.line import ACKNOWLEDGE_S_MAX, Explained, LineSink
from virtflow.model.errors import InvalidSetting
from virtflow.model.kafka import MECHANISMS, Servers

NAME = "kafka"
SETTING = "VIRTFLOW_EVENTS_KAFKA_SERVERS"
WHY_MS_MAX = 2000

# it tells every try of every connection; we tell each change once
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def kafka_sink(servers: Servers, *, prefix: str) -> LineSink:
    """InvalidSetting when a file of the address cannot be read."""
    client = client_arguments(servers)

    async def connect() -> "_Line":
        return await _connect(client, topic_of(prefix))

    return LineSink(NAME, connect=connect, explain=explain)


def client_arguments(servers: Servers) -> dict[str, Any]:
    """What every client of the library wants to be told of them."""
    arguments: dict[str, Any] = {
        "bootstrap_servers": list(servers.addresses),
        "client_id": "virtflow",
        "security_protocol": servers.protocol,
    }
    if servers.is_tls:
        arguments["ssl_context"] = _tls(servers)
    if servers.user:
        arguments |= {
            "sasl_mechanism": servers.mechanism,
            "sasl_plain_username": servers.user,
            "sasl_plain_password": servers.password.reveal(),
        }
    return arguments


def _tls(servers: Servers) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=servers.cafile or None)
        if servers.certfile:
            context.load_cert_chain(servers.certfile, servers.keyfile or None)
    except OSError as error:
        files = ", ".join(filter(None, (servers.cafile, servers.certfile, servers.keyfile)))
        raise InvalidSetting(
            SETTING,
            files,
            expected=f"files of certificates and their key, in PEM, that can be read ({error.strerror or error})",
        ) from error
    return context


def topic_of(prefix: str) -> str:
    return f"{prefix}.events"


async def why_not(client: Mapping[str, Any]) -> Exception | None:
    """What the library keeps to itself when it reaches no broker: why the first one does not let us in."""
    host, _, port = client["bootstrap_servers"][0].rpartition(":")
    others = {name: value for name, value in client.items() if name != "bootstrap_servers"}
    try:
        connection = await create_conn(host.strip("[]"), int(port), request_timeout_ms=WHY_MS_MAX, **others)
    except Exception as error:  # a look at what went wrong must not go wrong itself
        return error
    connection.close()
    return None


async def _connect(client: Mapping[str, Any], topic: str) -> "_Line":
    producer = AIOKafkaProducer(
        **client,
        enable_idempotence=True,  # what the library repeats by itself is stored once; acknowledged by all replicas
        request_timeout_ms=int(ACKNOWLEDGE_S_MAX * 1000 / 2),
    )
    line = _Line(producer, topic)
    try:
        await producer.start()
        await producer.partitions_for(topic)
    except KafkaConnectionError as error:
        await line.close()
        raise await why_not(client) or error from error
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


_SCHEMES = f"kafka:// is without TLS, kafka+ssl:// with: see {SETTING}"
_HANGS_UP = Explained("it hangs up before it says who it is", remedy=_SCHEMES)


def explain(error: Exception) -> Explained:
    match error:
        case SaslAuthenticationFailed():
            return Explained("it refuses our name and password", remedy=f"check them in {SETTING}")
        case UnsupportedSaslMechanismError() | IncompatibleBrokerVersion():
            return Explained(
                "it does not take names and passwords in the way that we offer them",
                remedy=f"name another ?mechanism= in {SETTING}: {', '.join(MECHANISMS)}",
            )
        case ssl.SSLCertVerificationError():
            return Explained(
                f"its certificate is not trusted ({error.verify_message})",
                remedy=f"name its authority in {SETTING}: ?cafile=…",
            )
        case ssl.SSLError():
            return Explained(f"it does not speak TLS with us ({error.reason or error})", remedy=_SCHEMES)
        case ConnectionResetError() | ConnectionAbortedError():
            return _HANGS_UP
        case KafkaConnectionError() if "closed" in str(error):
            return _HANGS_UP
        case KafkaConnectionError() | OSError():
            return Explained("no broker listens there", remedy=f"see whether they run, and {SETTING}")
        case UnknownTopicOrPartitionError():
            return Explained("the topic does not exist", remedy="create the topic <events_prefix>.events")
        case TopicAuthorizationFailedError():
            return Explained("it refuses us the topic", remedy="allow us to write to the topic <events_prefix>.events")
        case MessageSizeTooLargeError():
            return Explained("an event is larger than it takes", remedy="raise max.message.bytes of the topic")
        case KafkaError():
            return Explained(f"{type(error).__name__}: {error}", remedy="see what the brokers' logs say")
    return Explained(f"{type(error).__name__}: {error}")
