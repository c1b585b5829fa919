"""Does a RabbitMQ let us in, and is there, or can be made, what we need?"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import aio_pika
from aio_pika import ExchangeType
from aio_pika import exceptions as amqp
from aio_pika.abc import AbstractConnection

from virtflow.model.finding import Finding, bad, ok
from virtflow.model.secret import Secret
from virtflow.queue.topology import EXCHANGES, QUEUES
from virtflow.queue.trouble import FAILURES, Trouble, UnusableBroker, judge

#: name -> what it is declared with
Arguments = Mapping[str, Mapping[str, Any]]
_NONE: Arguments = {}
_PERMISSIONS = "rabbitmqctl set_permissions -p <vhost> <user> '.*' '.*' '.*'"


async def check_broker(
    part: str, url: Secret, *, wait_s: float, exchanges: Sequence[str] = (), queues: Arguments = _NONE
) -> Sequence[Finding]:
    """`exchanges`, `queues`: made at the first start, and compared here with what is there."""
    found: list[Finding] = []
    try:
        async with asyncio.timeout(wait_s):
            connection = await aio_pika.connect(url.reveal())
            async with connection:
                found.append(ok(part, f"{url} lets us in"))
                found.append(await _make_something(part, connection))
                found += [one async for one in _look_for_exchanges(part, url, connection, exchanges)]
                found += [one async for one in _look_for_queues(part, url, connection, queues)]
    except FAILURES as error:
        words, remedy = _in_words(judge(error, url))
        found.append(bad(part, f"{url} cannot be used: {words}", remedy))
    return found


def _in_words(judged: Trouble | UnusableBroker) -> tuple[str, str]:
    if isinstance(judged, UnusableBroker):
        return judged.cause, judged.remedy
    if "Connection.Close" in judged.words:  # how the library says that the broker hangs up on who may not come in
        return (
            "there is no such virtual host, or this user has no rights on it",
            f"rabbitmqctl add_vhost; {_PERMISSIONS}",
        )
    return judged.words, "start it, or correct host and port"


async def check_queue(url: Secret, *, wait_s: float) -> Sequence[Finding]:
    """The broker that carries knocks."""
    return await check_broker("broker", url, wait_s=wait_s, exchanges=EXCHANGES, queues=QUEUES)


async def _make_something(part: str, connection: AbstractConnection) -> Finding:
    """An exchange that is gone again at once: who may not make one may not make ours."""
    try:
        channel = await connection.channel()
        exchange = await channel.declare_exchange("task.checkup", auto_delete=True)
        await exchange.delete()
    except amqp.ChannelClosed as error:
        return bad(part, f"this user may not make exchanges there: {error}", _PERMISSIONS)
    return ok(part, "exchanges can be made there")


async def _look_for_exchanges(
    part: str, url: Secret, connection: AbstractConnection, exchanges: Sequence[str]
) -> AsyncIterator[Finding]:
    for name in exchanges:
        channel = await connection.channel()
        try:
            await channel.declare_exchange(name, passive=True)
            # it is there, so this makes nothing, and the broker compares
            await channel.declare_exchange(name, ExchangeType.TOPIC, durable=True)
        except amqp.ChannelNotFoundEntity:
            yield ok(part, f"the exchange {name} is made at the first start")
        except amqp.ChannelClosed as error:
            yield _unfit(part, url, f"exchange {name}", error)
        else:
            yield ok(part, f"the exchange {name} is as it should be")


async def _look_for_queues(
    part: str, url: Secret, connection: AbstractConnection, queues: Arguments
) -> AsyncIterator[Finding]:
    for name, arguments in queues.items():
        channel = await connection.channel()
        try:
            queue = await channel.declare_queue(name, passive=True)
            await channel.declare_queue(name, durable=True, arguments=dict(arguments))
        except amqp.ChannelNotFoundEntity:
            yield ok(part, f"the queue {name} is made at the first start")
        except amqp.ChannelClosed as error:
            yield _unfit(part, url, f"queue {name}", error)
        else:
            yield ok(part, f"the queue {name} holds {queue.declaration_result.message_count} messages")


def _unfit(part: str, url: Secret, what: str, error: amqp.ChannelClosed) -> Finding:
    words, remedy = _in_words(judge(error, url))
    if "ACCESS_REFUSED" in words:
        remedy = _PERMISSIONS
    return bad(part, f"the {what} cannot be used: {words}", remedy)
