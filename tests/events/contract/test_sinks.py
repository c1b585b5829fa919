"""What every sink keeps: in order for each object, acknowledged when it returns, failing soon and in words."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.events.buses import Bus, first_arrivals, judged, versions

from virtflow.events import CloudEvent, Sink, SinkFailed, envelope, line
from virtflow.model.event import Event, EventType

HISTORY = "6f1c9d0e-0000-4000-8000-000000000001"
OBJECTS = 7


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "ACKNOWLEDGE_S_MAX", 2.0)


@pytest.fixture
async def sink(bus: Bus) -> Sink:
    await bus.ready()
    return bus.open()


def events(count: int, *, after: int = 0) -> list[CloudEvent]:
    """Versions of a few objects, one after the other."""
    return [
        envelope(
            Event(
                type=EventType.TASK_RETRIED, kind="task", id=f"t-{seq % OBJECTS}", version=seq // OBJECTS + 1,
                seq=seq, at_ms=1_760_000_000_000 + seq, vm="café", delta={"cpu": 1000},
            ),
            history_id=HISTORY,
        )
        for seq in range(after + 1, after + count + 1)
    ]  # fmt: skip


async def test_what_was_sent_is_there_in_the_standards_envelope(bus: Bus, sink: Sink) -> None:
    sent = events(3)
    await sink.send(sent)
    arrived = sorted((judged(body) for body in await bus.bodies()), key=lambda one: one.get_extension("sequence"))
    assert [one.get_id() for one in arrived] == [one.id for one in sent]
    assert [one.get_subject() for one in arrived] == ["task/t-1", "task/t-2", "task/t-3"]
    data = arrived[0].get_data()
    assert isinstance(data, dict)
    assert (data["seq"], data["type"], data["vm"]) == (1, "task.retried", "café")
    await sink.close()


async def test_events_of_one_object_arrive_in_the_order_of_its_versions(bus: Bus, sink: Sink) -> None:
    for after in range(0, 300, 100):
        await sink.send(events(100, after=after))
    assert versions(await bus.bodies()) == in_order(300)
    await sink.close()


async def test_sending_again_changes_nothing_for_who_drops_known_ids(bus: Bus, sink: Sink) -> None:
    await sink.send(events(20))
    await sink.send(events(25))
    await sink.send(events(10))
    assert versions(await bus.bodies()) == in_order(25)
    await sink.close()


async def test_sending_nothing_shows_whether_it_could(sink: Sink) -> None:
    await sink.send([])
    await sink.close()


async def test_a_closed_sink_opens_again_when_it_is_used(bus: Bus, sink: Sink) -> None:
    await sink.send(events(1))
    await sink.close()
    await sink.close()
    await sink.send(events(1, after=1))
    assert len(list(first_arrivals(await bus.bodies()))) == 2
    await sink.close()


@pytest.mark.slow
async def test_an_outage_in_the_middle_is_said_in_words_and_loses_nothing(bus: Bus, sink: Sink) -> None:
    await sink.send(events(50))
    bus.go_away()
    with pytest.raises(SinkFailed) as failed:
        await sink.send(events(50, after=50))
    assert failed.value.detail
    assert failed.value.remedy
    bus.come_back()
    # what was taken for certain need not be sent again
    rest = events(50, after=50)[failed.value.taken :]
    await until_sent(sink, rest)
    assert versions(await bus.bodies()) == in_order(100)
    await sink.close()


async def test_who_is_cancelled_while_sending_can_send_again(bus: Bus, sink: Sink) -> None:
    sending = asyncio.create_task(sink.send(events(200)))
    await asyncio.sleep(0)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await sink.send(events(200))
    assert versions(await bus.bodies()) == in_order(200)
    await sink.close()


def in_order(count: int) -> dict[str, list[int]]:
    expected: dict[str, list[int]] = {}
    for event in events(count):
        expected.setdefault(event.subject, []).append(int(event.sequence) // OBJECTS + 1)
    return expected


async def until_sent(sink: Sink, rest: Sequence[CloudEvent]) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                return await sink.send(rest)
            except SinkFailed as failed:
                rest = rest[failed.taken :]
                await asyncio.sleep(0.1)
