"""Does a RabbitMQ let us in, and make what we need there?"""

import asyncio
from collections.abc import Sequence

import aio_pika
from aio_pika import exceptions as amqp

from virtflow.model.finding import Finding, bad, ok
from virtflow.model.secret import Secret


async def check_broker(part: str, url: Secret, *, wait_s: float) -> Sequence[Finding]:
    try:
        async with asyncio.timeout(wait_s):
            connection = await aio_pika.connect(url.reveal())
            async with connection:
                return [ok(part, f"{url} lets us in"), await _make_something(part, connection)]
    except TimeoutError:
        return [bad(part, f"{url} does not answer in time", "start it, or correct host and port")]
    except amqp.ProbableAuthenticationError:
        return [bad(part, f"{url} refuses this user or password", "correct it, or rabbitmqctl add_user")]
    except (amqp.AMQPError, OSError, RuntimeError) as error:
        what = str(error) or type(error).__name__
        return [bad(part, f"{url} cannot be used: {what}", "start it, or correct host, port and virtual host")]


async def _make_something(part: str, connection: aio_pika.abc.AbstractConnection) -> Finding:
    """An exchange that is gone with us: who may not make one may not make ours."""
    try:
        channel = await connection.channel()
        exchange = await channel.declare_exchange("task.checkup", auto_delete=True)
        await exchange.delete()
    except amqp.ChannelClosed as error:
        remedy = "rabbitmqctl set_permissions -p <vhost> <user> '.*' '.*' '.*'"
        return bad(part, f"this user may not make exchanges there: {error}", remedy)
    return ok(part, "exchanges can be made there")
