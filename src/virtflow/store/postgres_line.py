"""A connection outside of the pool: whoever votes waits for nobody's work, and others see whether it is there."""

import asyncio
from collections.abc import Sequence
from typing import Any

from virtflow.model.errors import Unavailable
from virtflow.store.postgres_connect import connect
from virtflow.store.postgres_session import ANY_FAILURE, ConnectionReader, failure, is_lost
from virtflow.store.session import Row


class PostgresLine:
    """Made when it is first needed, and again after it broke. One statement at a time."""

    def __init__(self, url: str, statements: dict[str, str], *, connect_s: float, statement_s: float) -> None:
        self._url = url
        self._statements = statements
        self._connect_s = connect_s
        self._statement_s = statement_s
        self._turn = asyncio.Lock()
        self._connection: Any = None
        self._end = asyncio.Event()
        self._is_closed = False

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        async with self._turn:
            if self._connection is None or is_lost(self._connection):
                await self._connect()
            return await ConnectionReader(self._connection, self._statements).rows(name, *arguments)

    def end(self) -> asyncio.Event:
        if self._connection is not None and is_lost(self._connection):
            self._end.set()
        return self._end

    def close(self) -> None:
        self._is_closed = True
        self._end.set()
        if self._connection is not None:
            self._connection.terminate()

    async def _connect(self) -> None:
        if self._is_closed:
            raise Unavailable("the store is not open")
        self._end.set()
        try:
            connection = await connect(
                self._url,
                timeout=self._connect_s,
                command_timeout=self._statement_s,
                server_settings={
                    "application_name": "virtflow election",
                    "statement_timeout": str(int(self._statement_s * 1000)),
                    "jit": "off",
                    # a beat is worth no wait for the disk: a server that crashes ends every session, and so every term
                    "synchronous_commit": "off",
                },
            )
        except ANY_FAILURE as error:
            raise failure(error) from error
        end = asyncio.Event()
        connection.add_termination_listener(lambda _: end.set())
        self._connection, self._end = connection, end
