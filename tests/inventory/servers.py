"""Servers as the world has them: raw bytes, sent as a test likes."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[str]:
    """`answer` is called with the head of each request; what it leaves open is closed for it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            await answer(head, writer)
            await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/nodes"
    finally:
        listening.close()


def answering(body: bytes | object, *, status: str = "200 OK", headers: str = "") -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def answer(_: str, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\nConnection: close\r\n{headers}\r\n"
        writer.write(head.encode() + content)

    return answer


async def trickling(_: str, writer: asyncio.StreamWriter) -> None:
    """A byte now and then, for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def silent(_: str, __: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def endless(_: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[")
    while True:
        writer.write(b" " * 65536)
        await writer.drain()


async def breaking_off(_: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n[{"name": "bm-0')


async def garbage(_: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01 no HTTP at all\r\n\r\n")
