"""A TCP proxy that loses, delays and cuts what goes through it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

_READ_BYTES = 65_536


class Proxy:
    """Between clients and one server. Faults hold until they are taken back."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._serving: set[asyncio.Task[None]] = set()
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        #: a request that contains this reaches the server, its reply never arrives, and then the connection is cut
        self.swallow_reply_to: bytes | None = None
        #: a request that contains this never reaches the server: the connection is cut instead
        self.swallow_request: bytes | None = None
        #: a request that contains this is held while the client's connection is cut, and reaches the server later
        self.delay_request: bytes | None = None
        self._arriving = asyncio.Event()
        #: how many were swallowed
        self.swallowed = 0
        #: how many are held, or have arrived and are not done yet
        self.on_the_way = 0
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self.arrive()
        self.cut()
        self.flow()
        if self._server:
            self._server.close()
            await self._server.wait_closed()
        if self._serving:
            await asyncio.wait(self._serving)

    def cut(self) -> None:
        """Every connection is reset; new ones are taken."""
        for pair in list(self._pairs):
            for writer in pair:
                writer.transport.abort()

    def stall(self) -> None:
        """Connections stay open, and nothing comes through."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    def arrive(self) -> None:
        """What was held reaches the server now."""
        arriving, self._arriving = self._arriving, asyncio.Event()
        arriving.set()

    def _begin(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, client))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            server_reader, server = await asyncio.open_connection(*self._target)
        except OSError:
            client.transport.abort()
            return
        pair = (client, server)
        self._pairs.add(pair)
        swallowing = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as both_ways:
                both_ways.create_task(self._forth(reader, client, server, swallowing))
                both_ways.create_task(self._back(server_reader, client, swallowing))
        except* OSError:
            pass
        finally:
            self._pairs.discard(pair)
            for writer in pair:
                writer.transport.abort()

    async def _forth(
        self,
        reader: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        server: asyncio.StreamWriter,
        swallowing: asyncio.Event,
    ) -> None:
        while data := await reader.read(_READ_BYTES):
            await self._flowing.wait()
            if self.delay_request and self.delay_request in data:
                await self._delay(client, server, data)
                return
            if self.swallow_request and self.swallow_request in data:
                self.swallowed += 1
                raise ConnectionResetError
            if self.swallow_reply_to and self.swallow_reply_to in data:
                swallowing.set()
            server.write(data)
            await server.drain()
        raise ConnectionResetError

    async def _delay(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter, data: bytes) -> None:
        self.on_the_way += 1
        try:
            client.transport.abort()
            await self._arriving.wait()
            server.write(data)
            await server.drain()
            await asyncio.Event().wait()  # until the server has answered, or hung up
        finally:
            self.on_the_way -= 1

    async def _back(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, swallowing: asyncio.Event
    ) -> None:
        while data := await reader.read(_READ_BYTES):
            await self._flowing.wait()
            if swallowing.is_set():
                self.swallowed += 1
                raise ConnectionResetError
            client.write(data)
            await client.drain()
        raise ConnectionResetError


@contextlib.asynccontextmanager
async def proxy(port: int, host: str = "127.0.0.1") -> AsyncIterator[Proxy]:
    """Running inside the block, on `proxy.port`."""
    made = Proxy(port, host)
    await made.start()
    try:
        yield made
    finally:
        await made.close()
