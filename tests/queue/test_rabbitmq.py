"""Knocks by a real broker: carried, confirmed, acknowledged after the work, and harmless when anything fails."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import aio_pika
import pytest
from structlog.testing import capture_logs
from tests.queue.conftest import Office, channel_at, ids, office_at, put, soon, take_all, waiting

from virtflow.model.errors import Unavailable
from virtflow.model.limits import CALLS_MAX, IDS_PER_MESSAGE_MAX
from virtflow.model.names import id_to_text
from virtflow.queue import consumer, publisher, topology
from virtflow.testing.proxy import Proxy, proxy
from virtflow.testing.rabbitmq import RabbitmqServer, rabbitmq_server

pytestmark = [pytest.mark.service("rabbitmq"), pytest.mark.slow, pytest.mark.xdist_group("rabbitmq")]

#: A quorum queue that was declared less than this before a crash does not come back by itself (RabbitMQ 3.10).
SETTLED_S = 1.5


@pytest.fixture(autouse=True)
def _soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits are in proportion; a test need not wait the whole of them."""
    monkeypatch.setattr(consumer, "RETRY_S", 0.01)
    monkeypatch.setattr(consumer, "RETRY_S_MAX", 0.2)
    monkeypatch.setattr(publisher, "RECONNECT_S_MAX", 0.2)


# ── the way of a knock ─────────────────────────────────────────────────────────────────────────────


async def test_what_is_called_is_looked_at_and_forgotten_by_the_broker(office: Office, rabbitmq_url: str) -> None:
    office.queue.call(ids(3))
    await office.has_seen(*ids(3))
    await soon(lambda: office.tally.consumed["looked_at"] == 1)
    assert office.tally.published == {"confirmed": 1}
    assert await waiting(rabbitmq_url, "task.schedule") == 0
    assert office.queue.state == "ok"


async def test_many_calls_share_a_message(rabbitmq_url: str) -> None:
    async with office_at(rabbitmq_url) as office:
        for key in ids(2 * IDS_PER_MESSAGE_MAX + 5):
            office.queue.call([key])
        async with office.publishing(), office.listening():
            await office.has_seen(*ids(2 * IDS_PER_MESSAGE_MAX + 5))
        assert sorted(office.sizes) == [5, IDS_PER_MESSAGE_MAX, IDS_PER_MESSAGE_MAX]


async def test_a_message_is_durable_and_carries_ids_alone(rabbitmq_url: str) -> None:
    async with office_at(rabbitmq_url) as office, office.publishing():
        office.queue.call(ids(2))
        await office.queue.flush()
    (message,) = await take_all(rabbitmq_url, "task.schedule", 1)
    assert json.loads(message.body) == {"tasks": [id_to_text(key) for key in ids(2)]}
    assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
    assert (message.content_type, message.routing_key, message.exchange) == (
        "application/json",
        "task.schedule",
        "task",
    )
    assert message.message_id
    assert set(message.headers) <= {"x-delivery-count"}  # the broker's own


async def test_exchange_and_queues_are_durable_and_quorum(rabbitmq: RabbitmqServer) -> None:
    url = rabbitmq.new_vhost()
    vhost = url.rpartition("/")[2]
    async with office_at(url):
        queues = rabbitmq.ctl("list_queues", "-p", vhost, "name", "type", "durable", "--formatter=json")
        exchanges = rabbitmq.ctl("list_exchanges", "-p", vhost, "name", "type", "durable", "--formatter=json")
    assert {(row["name"], row["type"], row["durable"]) for row in json.loads(queues)} == {
        ("task.schedule", "quorum", True),
        ("task.schedule.dead", "quorum", True),
    }
    assert {(row["name"], row["type"], row["durable"]) for row in json.loads(exchanges)} >= {
        ("task", "topic", True),
        ("task.dlx", "topic", True),
    }


async def test_failed_tasks_are_told_to_the_dead_letters(office: Office, rabbitmq_url: str) -> None:
    office.queue.bury(ids(2))
    (message,) = await take_all(rabbitmq_url, "task.schedule.dead", 1)
    assert json.loads(message.body) == {"tasks": [id_to_text(key) for key in ids(2)]}
    assert message.routing_key == "task.failed"


# ── acknowledged after the work, and not before ────────────────────────────────────────────────────


async def test_no_more_is_taken_than_may_be_under_way(rabbitmq_url: str) -> None:
    async with office_at(rabbitmq_url, prefetch=2) as office, office.publishing(), office.listening():
        office.may_look.clear()
        for key in ids(5):
            office.queue.call([key])
            await office.queue.flush()
        await soon(lambda: office.under_way == 2)
        assert await waiting(rabbitmq_url, "task.schedule") == 3
        assert office.tally.consumed["looked_at"] == 0
        office.may_look.set()
        await office.has_seen(*ids(5))


async def test_what_was_not_looked_at_goes_to_the_next_who_listens(rabbitmq_url: str) -> None:
    async with office_at(rabbitmq_url) as office, office.publishing():
        office.may_look.clear()
        async with office.listening():
            office.queue.call(ids(1))
            await soon(lambda: office.under_way == 1)
        async with office_at(rabbitmq_url) as other, other.listening():
            await other.has_seen(*ids(1))
        assert office.looked_at == []


async def test_looking_is_tried_again_until_it_works(office: Office) -> None:
    office.failures = [Unavailable("the database is away")] * (consumer.TRIES_MAX + 3)
    office.queue.call(ids(1))
    await office.has_seen(*ids(1))
    assert office.tally.consumed["retried"] == consumer.TRIES_MAX + 3
    assert office.dead == []


async def test_a_message_that_makes_us_fail_is_set_aside(office: Office, rabbitmq_url: str) -> None:
    office.failures = [ZeroDivisionError("oh")] * consumer.TRIES_MAX
    office.queue.call(ids(1))
    await soon(lambda: len(office.dead) == 1)
    assert office.dead[0].code == "undeliverable_message"
    assert "ZeroDivisionError: oh" in office.dead[0].reason
    (message,) = await take_all(rabbitmq_url, "task.schedule.dead", 1)
    assert message.body == office.dead[0].body
    office.queue.call(ids(1, first=9))
    await office.has_seen(*ids(1, first=9))


async def test_what_was_handed_out_too_often_is_set_aside_unseen(
    rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "DELIVERIES_MAX", 3)
    async with office_at(rabbitmq_url) as office, office.publishing():
        office.may_look.clear()
        office.queue.call(ids(1))
        for _ in range(2):  # as if a process died of it, twice
            async with office.listening():
                await soon(lambda: office.under_way == 1)
        async with office.listening():
            await soon(lambda: len(office.dead) == 1)
        assert office.dead[0].code == "undeliverable_message"
        assert office.looked_at == []
    assert len(await take_all(rabbitmq_url, "task.schedule.dead", 1)) == 1


@pytest.mark.parametrize("body", [b"", b"\xff\x00", b'{"tasks":[]}', b'{"tasks":["?"]}', b'{"schedule":"everything"}'])
async def test_poison_goes_to_the_dead_letters_and_delays_nobody(
    office: Office, rabbitmq_url: str, body: bytes
) -> None:
    await put(rabbitmq_url, body)
    office.queue.call(ids(1))
    await office.has_seen(*ids(1))
    await soon(lambda: office.tally.consumed["dead"] == 1)
    assert [(message.code, message.body) for message in office.dead] == [("malformed_message", body)]
    (message,) = await take_all(rabbitmq_url, "task.schedule.dead", 1)
    assert (message.body, message.headers["x-first-death-reason"]) == (body, "rejected")


async def test_doubles_and_disorder_are_handed_over_as_they_come(office: Office, rabbitmq_url: str) -> None:
    bodies = [b'{"tasks":["%s"]}' % id_to_text(key).encode() for key in ids(3)]
    await put(rabbitmq_url, *reversed(bodies), *bodies, bodies[0])
    await soon(lambda: len(office.looked_at) == 7)
    assert set(office.looked_at) == set(ids(3))


# ── nothing here may hold up a request ─────────────────────────────────────────────────────────────


async def test_calls_are_bounded_and_the_oldest_are_dropped() -> None:
    async with office_at("amqp://127.0.0.1:1/") as office:
        office.queue.call(ids(CALLS_MAX))
        office.queue.call(ids(7, first=CALLS_MAX + 1))
        assert office.tally.lost_calls == 7
        assert office.queue.state.startswith("degraded: ")


async def test_what_nothing_takes_is_declared_anew_and_sent_again(rabbitmq_url: str) -> None:
    async with office_at(rabbitmq_url) as office, office.publishing():
        async with channel_at(rabbitmq_url) as channel:
            queue = await channel.get_queue("task.schedule", ensure=False)
            await queue.unbind("task", "task.schedule")
        office.queue.call(ids(1))
        await office.queue.flush()
        assert office.tally.published == {"unroutable": 1, "confirmed": 1}
        assert office.queue.state == "ok"
        async with office.listening():
            await office.has_seen(*ids(1))


async def test_a_queue_that_is_deleted_is_made_anew(office: Office, rabbitmq_url: str) -> None:
    async with channel_at(rabbitmq_url) as channel:
        await channel.queue_delete("task.schedule")

    async def is_carried() -> bool:
        office.queue.call(ids(1))
        await office.queue.flush()
        return bool(office.looked_at)

    await soon(is_carried)
    assert office.queue.state == "ok"


async def test_a_full_queue_refuses_and_the_call_is_given_up(
    rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(topology.QUEUE_ARGUMENTS, "x-max-length", 1)
    async with office_at(rabbitmq_url) as office, office.publishing():
        for key in ids(10):  # the bound is not sharp
            office.queue.call([key])
            await office.queue.flush()
            if office.tally.lost_calls:
                break
        assert office.tally.published["refused"] == publisher.PUBLISH_TRIES_MAX
        assert office.tally.lost_calls == 1
        assert "full" in office.queue.state
        async with office.listening():
            await soon(lambda: bool(office.looked_at))
            office.queue.call(ids(1, first=99))
            await office.has_seen(*ids(1, first=99))
            assert office.queue.state == "ok"


@pytest.fixture
async def between(rabbitmq: RabbitmqServer) -> AsyncIterator[Proxy]:
    async with proxy(rabbitmq.port) as between:
        yield between


async def test_a_broker_that_says_nothing_any_more_is_let_go_in_time(rabbitmq: RabbitmqServer, between: Proxy) -> None:
    url = rabbitmq.new_vhost().replace(f":{rabbitmq.port}/", f":{between.port}/")
    async with office_at(url, timeout_s=0.3) as office, office.publishing(), office.listening():
        office.queue.call(ids(1))
        await office.has_seen(*ids(1))
        between.stall()
        began_s = time.monotonic()
        office.queue.call(ids(1, first=2))
        assert time.monotonic() - began_s < 0.1
        await soon(lambda: office.tally.lost_calls == 1)
        assert office.tally.published["timeout"] == publisher.PUBLISH_TRIES_MAX
        assert office.queue.state == "degraded: it does not answer in time"
        office.queue.call(ids(1, first=3))
        between.flow()
        await office.has_seen(*ids(1, first=3))
        await soon(lambda: office.queue.state == "ok")


async def test_a_cut_line_is_made_anew_and_each_change_is_told_once(rabbitmq: RabbitmqServer, between: Proxy) -> None:
    url = rabbitmq.new_vhost().replace(f":{rabbitmq.port}/", f":{between.port}/")
    async with office_at(url, timeout_s=2) as office, office.publishing(), office.listening():
        office.queue.call(ids(1))
        await office.has_seen(*ids(1))
        with capture_logs() as lines:
            for number in range(2, 5):
                between.cut()
                office.queue.call(ids(1, first=number))
                await office.has_seen(*ids(1, first=number))
            await soon(lambda: office.queue.state == "ok")
    told = [(line["event"], line["link"]) for line in lines]
    for link in ("virtflow listens", "virtflow publishes"):
        changes = [event for event, which in told if which == link]
        assert changes == ["broker.lost", "broker.back"] * (len(changes) // 2)
        assert len(changes) <= 6


async def test_flushing_ends_also_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "FLUSH_S_MAX", 0.1)
    async with office_at("amqp://127.0.0.1:1/") as office, office.publishing():
        office.queue.call(ids(3))
        await office.queue.flush()
        assert office.tally.lost_calls == 3


# ── the broker itself ──────────────────────────────────────────────────────────────────────────────


async def test_what_is_called_while_the_broker_is_dead_is_carried_when_it_is_back() -> None:
    with rabbitmq_server() as server:
        async with office_at(server.url()) as office, office.publishing(), office.listening():
            office.queue.call(ids(100))
            await office.has_seen(*ids(100))
            await asyncio.sleep(SETTLED_S)
            with capture_logs() as lines:
                server.kill()
                office.queue.call(ids(50, first=200))
                await soon(lambda: office.queue.state != "ok")
                await asyncio.to_thread(server.start)
                office.queue.call(ids(50, first=300))
                await office.has_seen(*ids(50, first=200), *ids(50, first=300))
                await soon(lambda: office.queue.state == "ok")
    assert sorted(line["link"] for line in lines if line["event"] == "broker.lost") == [
        "virtflow listens",
        "virtflow publishes",
    ]


async def test_a_broker_short_of_memory_blocks_publishers_and_no_acknowledgement(rabbitmq: RabbitmqServer) -> None:
    async with office_at(rabbitmq.new_vhost(), timeout_s=0.5) as office, office.publishing(), office.listening():
        office.may_look.clear()
        office.queue.call(ids(1))
        await soon(lambda: office.under_way == 1)
        await asyncio.to_thread(rabbitmq.raise_memory_alarm)
        try:
            office.may_look.set()
            await soon(lambda: office.tally.consumed["looked_at"] == 1)
            office.queue.call(ids(1, first=2))
            await soon(lambda: office.tally.lost_calls == 1)
            assert office.queue.state == "degraded: it does not answer in time"
        finally:
            await asyncio.to_thread(rabbitmq.lower_memory_alarm)

        async def is_carried() -> bool:
            office.queue.call(ids(1, first=3))
            return set(ids(1, first=3)) <= set(office.looked_at)

        await soon(is_carried)
        await soon(lambda: office.queue.state == "ok")


async def test_a_queue_that_never_answers_is_made_anew(rabbitmq: RabbitmqServer, rabbitmq_url: str) -> None:
    """As one that was declared just before its broker was killed: it is known, and there is nobody behind it."""
    async with office_at(rabbitmq_url, timeout_s=1.5) as office:
        name = f"{rabbitmq_url.rpartition('/')[2]}_task.schedule"
        rabbitmq.ctl("eval", f"ra:stop_server(quorum_queues, {{'{name}', node()}}).")

        async def is_carried() -> bool:
            office.queue.call(ids(1))
            return bool(office.looked_at)

        with capture_logs() as lines:
            async with office.publishing(), office.listening():
                await soon(is_carried, within_s=60.0)
    assert [line["queue"] for line in lines if line["event"] == "broker.queue_deleted"] == ["task.schedule"]
