"""The throw-away broker is a real one: it keeps what it confirmed, and nothing of it stays behind."""

import asyncio
import contextlib
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import DeliveryError

import virtflow
from virtflow.testing.rabbitmq import RabbitmqServer, rabbitmq_server

#: A quorum queue that was declared less than this before a crash does not come back (RabbitMQ 3.10).
SETTLED_S = 1.0

pytestmark = [
    pytest.mark.service("rabbitmq"),
    pytest.mark.slow,
    pytest.mark.xdist_group("rabbitmq"),
]


async def publish(url: str, body: bytes) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await declare(channel)
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, "kept")


async def take(url: str) -> bytes:
    async with await aio_pika.connect(url) as connection:
        queue = await declare(await connection.channel())
        while not (message := await queue.get(fail=False)):
            await asyncio.sleep(0.01)
        await message.ack()
        return message.body


async def declare(channel: AbstractChannel) -> aio_pika.abc.AbstractQueue:
    return await channel.declare_queue("kept", durable=True, arguments={"x-queue-type": "quorum"})


async def test_what_was_confirmed_survives_a_kill() -> None:
    with rabbitmq_server() as server:
        await publish(server.url(), b"one")
        await asyncio.sleep(SETTLED_S)
        server.kill()
        with pytest.raises(ConnectionError):
            await publish(server.url(), b"lost")
        server.start()
        assert await take(server.url()) == b"one"


async def test_every_virtual_host_is_empty_and_ones_own(rabbitmq: RabbitmqServer) -> None:
    one, other = rabbitmq.new_vhost(), rabbitmq.new_vhost()
    await publish(one, b"of one")
    await publish(other, b"of the other")
    assert (await take(one), await take(other)) == (b"of one", b"of the other")


async def test_a_memory_alarm_blocks_publishers_until_it_is_lowered(rabbitmq: RabbitmqServer) -> None:
    url = rabbitmq.new_vhost()
    rabbitmq.raise_memory_alarm()
    try:
        with pytest.raises((TimeoutError, DeliveryError)):
            async with asyncio.timeout(0.5):
                await publish(url, b"one")
    finally:
        rabbitmq.lower_memory_alarm()
    await publish(url, b"two")
    assert await take(url) in {b"one", b"two"}


_START_AND_ASK = """
import socket
from virtflow.testing.rabbitmq import rabbitmq_server
with rabbitmq_server() as server:
    socket.create_connection(("127.0.0.1", server.port)).close()
    print(server.folder)
"""


def test_it_needs_no_rights_and_leaves_nothing_behind() -> None:
    done = subprocess.run(
        [*_interpreter_for_everybody(), "-c", _START_AND_ASK],
        cwd="/", check=False, capture_output=True, text=True, timeout=60, **_somebody(),
        env={"PATH": os.defpath, "PYTHONPATH": str(Path(virtflow.__file__).parent.parent)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    folder = Path(done.stdout.strip())
    assert folder.name.startswith("virtflow-rabbitmq-")
    assert not folder.exists()
    assert not _programs_of(folder)


def test_its_programs_are_found_while_it_runs(rabbitmq: RabbitmqServer) -> None:
    assert len(_programs_of(rabbitmq.folder)) >= 2


def _somebody() -> dict[str, Any]:
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _interpreter_for_everybody() -> list[str]:
    """Ours may live in somebody's home; the tool needs no package, so the system's does as well."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            probe = [candidate, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
            if subprocess.run(probe, check=False, capture_output=True, cwd="/", **_somebody()).returncode == 0:
                return [candidate]
    pytest.skip("no interpreter here is for everybody")


def _programs_of(folder: Path) -> list[str]:
    """Node, port mapper and helpers have the folder in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or not ours
            if f"HOME={folder}".encode() in (process / "environ").read_bytes():
                found.append(process.name)
    return found
