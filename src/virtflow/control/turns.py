"""Writing and reading by turns: many write at a time, or one reads alone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Turns:
    """A reader who waits lets no new writer in, so that his turn comes."""

    def __init__(self) -> None:
        self._writing = 0
        self._is_reading = False
        self._readers_waiting = 0
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        while self._is_reading or self._readers_waiting:
            await self._changed.wait()
        self._writing += 1
        try:
            yield
        finally:
            self._writing -= 1
            self._tell()

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        self._readers_waiting += 1
        try:
            while self._is_reading or self._writing:
                await self._changed.wait()
            self._is_reading = True
        finally:
            self._readers_waiting -= 1
            self._tell()
        try:
            yield
        finally:
            self._is_reading = False
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
