"""Do the buses that are to be told of events take anything from us?"""

import asyncio
from collections.abc import Sequence
from typing import Any

from virtflow.model.errors import InvalidSetting
from virtflow.model.finding import Finding, bad, ok, warn
from virtflow.model.kafka import read_servers
from virtflow.model.secret import Secret


async def check_nats(url: Secret, *, wait_s: float) -> Sequence[Finding]:
    from nats.aio.client import Client
    from nats.errors import Error as NatsError

    async def swallow(_: Exception) -> None:
        """The library would print it."""

    client: Any = Client()
    try:
        async with asyncio.timeout(wait_s):
            await client.connect(
                url.reveal(),
                name="virtflow doctor",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=wait_s / 2,
                error_cb=swallow,
            )
            account = await client.jetstream().account_info()
    except (NatsError, OSError, TimeoutError) as error:
        what = str(error) or type(error).__name__
        return [bad("nats", f"{url} cannot be used: {what}", "start it with JetStream (-js), or correct the URL")]
    finally:
        await client.close()
    return [ok("nats", f"{url} keeps {account.streams} streams")]


async def check_kafka(address: Secret, *, wait_s: float) -> Sequence[Finding]:
    try:
        from aiokafka.admin import AIOKafkaAdminClient
        from aiokafka.errors import KafkaConnectionError

        from virtflow.events.kafka import client_arguments, explain, why_not
    except ImportError:
        return [bad("kafka", "its library is not installed", "pip install 'virtflow[kafka]'")]
    servers = read_servers(address.reveal())
    try:
        arguments = client_arguments(servers)
    except InvalidSetting as error:
        return [bad("kafka", error.detail, error.remedy)]
    client = AIOKafkaAdminClient(**arguments, request_timeout_ms=int(wait_s * 1000))
    try:
        async with asyncio.timeout(wait_s):
            await client.start()
            topics = await client.list_topics()
    except TimeoutError:
        return [_unusable(address, "it does not answer in time", "see whether it runs, and what its log says")]
    except Exception as error:  # the troubles of a library are as many as its versions
        is_vague = isinstance(error, KafkaConnectionError)
        said = explain((await why_not(arguments) if is_vague else None) or error)
        return [_unusable(address, said.detail, said.remedy)]
    finally:
        await client.close()
    found = [ok("kafka", f"{address} keeps {len(topics)} topics")]
    if servers.mechanism == "PLAIN" and servers.user and not servers.is_tls:
        found.append(warn("kafka", "the password goes there in the clear", "use kafka+ssl://, or a SCRAM mechanism"))
    return found


def _unusable(address: Secret, what: str, remedy: str) -> Finding:
    return bad("kafka", f"{address} cannot be used: {what}", remedy or "start the brokers, or correct the setting")
