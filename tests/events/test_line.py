"""A line is given up as soon as anything goes wrong, and what is on its way together cannot be out of order."""

import asyncio
from collections.abc import Sequence

import pytest

from virtflow.events import CloudEvent, SinkFailed, envelope, line
from virtflow.events.line import Explained, LineSink, waves
from virtflow.model.event import Event, EventType


def event(name: str, seq: int = 1) -> CloudEvent:
    return envelope(Event(type=EventType.POOL_CHANGED, kind="pool", id=name, seq=seq), history_id="h")


def shown(events: str) -> list[str]:
    return ["".join(one.subject[-1] for one in wave) for wave in waves([event(name) for name in events])]


def test_no_two_events_of_one_object_are_on_their_way_together() -> None:
    assert shown("") == []
    assert shown("abc") == ["abc"]
    assert shown("aaa") == ["a", "a", "a"]
    assert shown("abcadb") == ["abc", "adb"]
    assert shown("abbc") == ["ab", "bc"]


class Wire:
    """A line that breaks at the n-th wave, or stalls."""

    def __init__(self, *, breaks_at: int = 0, stalls: bool = False) -> None:
        self.sent: list[str] = []
        self.closed = 0
        self._breaks_at = breaks_at
        self._stalls = stalls

    async def send(self, wave: Sequence[CloudEvent]) -> None:
        if self._stalls:
            await asyncio.Event().wait()
        if len(self.sent) + 1 == self._breaks_at:
            raise OSError("cut")
        self.sent.append("".join(one.subject[-1] for one in wave))

    async def close(self) -> None:
        self.closed += 1


def sink_over(*wires: Wire) -> LineSink:
    rest = iter(wires)

    async def connect() -> Wire:
        return next(rest)

    return LineSink("wire", connect=connect, explain=lambda error: Explained(f"it is {error}", remedy="mend it"))


async def test_a_broken_line_says_how_much_arrived_and_the_next_call_lays_another() -> None:
    broken, whole = Wire(breaks_at=3), Wire()
    sink = sink_over(broken, whole)
    with pytest.raises(SinkFailed) as failed:
        await sink.send([event(name) for name in "abacab"])
    assert (failed.value.taken, failed.value.detail, failed.value.remedy) == (4, "it is cut", "mend it")
    assert broken.closed == 1
    await sink.send([event(name) for name in "ab"])
    assert (broken.sent, whole.sent) == (["ab", "ac"], ["ab"])


async def test_a_line_that_stalls_fails_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "ACKNOWLEDGE_S_MAX", 0.05)
    stalled = Wire(stalls=True)
    with pytest.raises(SinkFailed, match="does not answer in time"):
        await sink_over(stalled).send([event("a")])
    assert stalled.closed == 1


async def test_a_line_that_is_never_laid_fails_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "CONNECT_S_MAX", 0.05)

    async def connect() -> Wire:
        await asyncio.Event().wait()
        raise AssertionError

    sink = LineSink("wire", connect=connect, explain=lambda error: Explained(str(error)))
    with pytest.raises(SinkFailed, match="does not answer in time"):
        await sink.send([])


async def test_a_line_that_cannot_be_hung_up_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "HANG_UP_S_MAX", 0.05)

    class Sticky(Wire):
        async def close(self) -> None:
            await asyncio.Event().wait()

    sink = sink_over(Sticky(), Wire())
    await sink.send([event("a")])
    await sink.close()
    await sink.send([event("a")])
