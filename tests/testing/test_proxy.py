"""The proxy loses what it shall lose, and nothing else."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from virtflow.testing.proxy import Proxy, proxy


@pytest.fixture
async def heard() -> list[bytes]:
    return []


@pytest.fixture
async def between(heard: list[bytes]) -> AsyncIterator[Proxy]:
    """Before a server that says everything twice."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1_000):
                heard.append(data)
                writer.write(data + data)
        writer.transport.abort()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with proxy(server.sockets[0].getsockname()[1]) as between:
        yield between
    server.close()
    await asyncio.sleep(0.01)  # for the last connections to end


async def ask(port: int, words: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(words)
        return await asyncio.wait_for(reader.read(1_000), 0.5)
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def test_everything_goes_through(between: Proxy) -> None:
    assert await ask(between.port, b"hello") == b"hellohello"


async def test_a_swallowed_reply_was_heard(between: Proxy, heard: list[bytes]) -> None:
    between.swallow_reply_to = b"COMMIT"
    assert await ask(between.port, b"SELECT") == b"SELECTSELECT"
    assert await ask(between.port, b"COMMIT") == b""
    assert (heard, between.swallowed) == ([b"SELECT", b"COMMIT"], 1)


async def test_a_swallowed_request_was_not_heard(between: Proxy, heard: list[bytes]) -> None:
    between.swallow_request = b"COMMIT"
    assert await ask(between.port, b"COMMIT") == b""
    assert (heard, between.swallowed) == ([], 1)


async def test_a_delayed_request_is_heard_when_its_client_is_long_gone(between: Proxy, heard: list[bytes]) -> None:
    between.delay_request = b"COMMIT"
    assert await ask(between.port, b"COMMIT") == b""
    assert (heard, between.on_the_way) == ([], 1)
    between.arrive()
    async with asyncio.timeout(5):
        while between.on_the_way:
            await asyncio.sleep(0.01)
    assert heard == [b"COMMIT"]


async def test_a_stalled_connection_stays_open_and_goes_on(between: Proxy) -> None:
    between.stall()
    with pytest.raises(TimeoutError):
        await ask(between.port, b"hello")
    between.flow()
    assert await ask(between.port, b"hello") == b"hellohello"


async def test_a_cut_ends_all_that_are_open(between: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", between.port)
    writer.write(b"hello")
    assert await reader.read(1_000) == b"hellohello"
    between.cut()
    with contextlib.suppress(OSError):
        assert await reader.read(1_000) == b""
    writer.transport.abort()
    assert await ask(between.port, b"again") == b"againagain"
