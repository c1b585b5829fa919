"""Do the buses that are to be told of events take anything from us?"""

import asyncio
from collections.abc import Sequence
from typing import Any

from virtflow.model.finding import Finding, bad, ok
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


async def check_kafka(servers: str, *, wait_s: float) -> Sequence[Finding]:
    try:
        from aiokafka.admin import AIOKafkaAdminClient
        from aiokafka.errors import KafkaError
    except ImportError:
        return [bad("kafka", "its library is not installed", "pip install 'virtflow[kafka]'")]
    client = AIOKafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=int(wait_s * 1000))
    try:
        async with asyncio.timeout(wait_s):
            await client.start()
            topics = await client.list_topics()
    except (KafkaError, OSError, TimeoutError) as error:
        what = str(error) or type(error).__name__
        return [bad("kafka", f"{servers} cannot be used: {what}", "start the brokers, or correct events_kafka_servers")]
    finally:
        await client.close()
    return [ok("kafka", f"{servers} keeps {len(topics)} topics")]
