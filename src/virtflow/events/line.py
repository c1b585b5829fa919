"""A sink over a line that is laid when it is needed, and given up as soon as anything goes wrong."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from virtflow.events.cloudevents import CloudEvent
from virtflow.events.contract import SinkFailed

CONNECT_S_MAX = 10.0
#: so long a bus may take to acknowledge what was sent together
ACKNOWLEDGE_S_MAX = 10.0
HANG_UP_S_MAX = 2.0


class Line(Protocol):
    """One connection to a bus. Every failure is the end of it."""

    async def send(self, wave: Sequence[CloudEvent]) -> None:
        """Sent together, in order; returns when each was acknowledged."""
        ...

    async def close(self) -> None:
        """At once: what was not acknowledged is given up."""
        ...


class Explained(Exception):
    """A failure in the words of somebody who could mend it."""

    def __init__(self, detail: str, *, remedy: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy


#: what a library's exception means, in words
Explain = Callable[[Exception], Explained]


class LineSink:
    """`connect` lays the line, with everything declared that the bus must know."""

    def __init__(self, name: str, *, connect: Callable[[], Awaitable[Line]], explain: Explain) -> None:
        self.name = name
        self._connect = connect
        self._explain = explain
        self._line: Line | None = None

    async def send(self, events: Sequence[CloudEvent]) -> None:
        taken = 0
        try:
            line = await self._connected()
            for wave in waves(events):
                async with asyncio.timeout(ACKNOWLEDGE_S_MAX):
                    await line.send(wave)
                taken += len(wave)
        except Exception as error:  # the troubles of a library are as many as its versions
            await self.close()
            said = self._in_words(error)
            raise SinkFailed(said.detail, remedy=said.remedy, taken=taken) from error
        except asyncio.CancelledError:
            await self.close()  # nobody waits for the acknowledgements any more
            raise

    async def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            # a line that cannot even be hung up is none
            with contextlib.suppress(Exception):
                async with asyncio.timeout(HANG_UP_S_MAX):
                    await line.close()

    async def _connected(self) -> Line:
        if self._line is None:
            async with asyncio.timeout(CONNECT_S_MAX):
                self._line = await self._connect()
        return self._line

    def _in_words(self, error: Exception) -> Explained:
        if isinstance(error, Explained):
            return error
        if isinstance(error, TimeoutError):
            return Explained("it does not answer in time", remedy="see whether it runs, and what its log says")
        return self._explain(error)


def waves(events: Sequence[CloudEvent]) -> Iterator[list[CloudEvent]]:
    """Events that may be on their way together: no two of one object, so that none overtakes one that got lost."""
    wave: list[CloudEvent] = []
    subjects: set[str] = set()
    for event in events:
        if event.subject in subjects:
            yield wave
            wave, subjects = [], set()
        wave.append(event)
        subjects.add(event.subject)
    if wave:
        yield wave
