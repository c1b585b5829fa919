"""One post to every kind of receiver: it ends in time, and the answer says what became of it."""

import asyncio
import datetime
import email.utils
import ipaddress
import time
from collections.abc import AsyncIterator

import pytest
import standardwebhooks

from virtflow.control.clock import SystemClock
from virtflow.events.cloudevents import notice
from virtflow.events.guard import Guard
from virtflow.events.post import KEPT, RETRY_AFTER_S_MAX, Mailer, Post, judged
from virtflow.model.limits import WEBHOOK_LANES_MAX
from virtflow.model.secret import Secret
from virtflow.model.webhook import secret_text
from virtflow.testing.receiver import Behaviour, Receiver, receiver

SECRET = Secret(secret_text(b"s" * 32))
BODY = notice("webhook.test", {"a": 1}, message_id="h-1", subject="webhook/a", history_id="h", at_ms=1)
SHORT_S = 0.6


@pytest.fixture
async def mailer() -> AsyncIterator[Mailer]:
    made = Mailer(Guard(allowed=[ipaddress.ip_network("127.0.0.0/8")]), clock=SystemClock(), timeout_s=SHORT_S)
    yield made
    await made.close()


def post(url: str, **more: object) -> Post:
    return Post(**{"url": url, "message_id": "h-1", "body": BODY, "secrets": (SECRET,), **more})  # type: ignore[arg-type]


async def test_a_message_arrives_as_the_standards_want_it(mailer: Mailer) -> None:
    async with receiver(secrets=[SECRET]) as hook:
        reply = await mailer.send(post(f"{hook.url}?a=b"), line="a")
    assert (reply.code, reply.status) == ("", 204)
    [message] = hook.messages
    assert message.is_genuine
    assert message.path == "/hook?a=b"
    assert message.headers["content-type"] == "application/cloudevents+json"
    assert message.headers["host"] == f"127.0.0.1:{hook.port}"
    assert message.headers["user-agent"].startswith("virtflow/")
    standardwebhooks.Webhook(SECRET.reveal()).verify(message.body, dict(message.headers))
    assert message.event["type"] == "virtflow.webhook.test"


async def test_what_is_not_ours_to_send_any_more_stays_in_the_house(mailer: Mailer) -> None:
    """Asked on an open connection: however long that took to make, nothing old leaves after it."""
    async with receiver() as hook:
        reply = await mailer.send(post(hook.url), line="a", may_leave=lambda: hook.connections == 0)
        assert (reply.code, hook.connections, hook.messages) == (KEPT, 1, [])
        assert (await mailer.send(post(hook.url), line="a")).is_delivered


async def test_what_is_kept_when_its_head_has_left_already_is_no_message(mailer: Mailer) -> None:
    """Who was stopped between the two would send the body when he wakes up."""
    asked = iter([True, False])
    async with receiver() as hook:
        reply = await mailer.send(post(hook.url), line="a", may_leave=lambda: next(asked))
        assert reply.code == KEPT
        assert (await mailer.send(post(hook.url), line="a")).is_delivered
        assert (len(hook.messages), hook.connections) == (1, 2)


@pytest.mark.parametrize(
    ("behaviour", "code", "status"),
    [
        (Behaviour.OK, "", 204),
        (Behaviour.ENDLESS, "", 200),
        (Behaviour.ERROR, "http_error", 500),
        (Behaviour.BUSY, "http_error", 429),
        (Behaviour.GONE, "gone", 410),
        (Behaviour.REDIRECT, "redirect_refused", 302),
        (Behaviour.RESET, "connection_failed", 0),
        (Behaviour.NOISE, "bad_answer", 0),
        (Behaviour.SILENT, "timeout", 0),
        (Behaviour.DRIP, "timeout", 0),
    ],
)
async def test_every_kind_of_receiver(mailer: Mailer, behaviour: Behaviour, code: str, status: int) -> None:
    async with receiver(behaviour=behaviour, retry_after_s=7) as hook:
        reply = await mailer.send(post(hook.url), line="a")
        assert (reply.code, reply.status) == (code, status)
        assert reply.retry_after_s == (7 if behaviour is Behaviour.BUSY else None)
        assert bool(reply.text) != reply.is_delivered
        hook.behaviour = Behaviour.OK
        assert (await mailer.send(post(hook.url), line="a")).is_delivered


async def test_where_nobody_listens_the_connection_fails(mailer: Mailer) -> None:
    hook = Receiver()
    await hook.start()
    await hook.close()
    reply = await mailer.send(post(hook.url), line="a")
    assert (reply.code, reply.status) == ("connection_failed", 0)
    assert "refused" in reply.text


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(mailer: Mailer) -> None:
    async with receiver() as hook:
        reply = await mailer.send(post(hook.url.replace("http:", "https:")), line="a")
    assert reply.code in {"tls_failed", "timeout"}  # it takes our greeting for a very long head
    assert not hook.messages


async def test_lines_do_not_wait_for_each_others_connections(mailer: Mailer) -> None:
    async with receiver(behaviour=Behaviour.SILENT) as slow, receiver() as quick:
        hanging = [asyncio.create_task(mailer.send(post(slow.url), line="slow")) for _ in range(20)]
        await slow.until(lambda hook: len(hook.messages) >= 8)
        assert (await mailer.send(post(quick.url), line="quick")).is_delivered
        assert {(await one).code for one in hanging} == {"timeout"}


async def test_posts_that_are_broken_off_at_any_moment_take_no_connection_with_them() -> None:
    """Who was relay again and again reached a receiver never again: what was broken off kept its connections."""
    patient = Mailer(Guard(allowed=[ipaddress.ip_network("127.0.0.0/8")]), clock=SystemClock())
    async with receiver() as hook:

        async def go_on() -> None:
            while True:
                await patient.send(post(hook.url), line="a")

        for steps in range(40, 64):
            lanes = [asyncio.create_task(go_on()) for _ in range(WEBHOOK_LANES_MAX)]
            for _ in range(steps):
                await asyncio.sleep(0)
            for lane in lanes:
                lane.cancel()
            await asyncio.wait(lanes)
        async with asyncio.timeout(5):
            assert (await patient.send(post(hook.url), line="a")).is_delivered
    await patient.close()


async def test_more_posts_than_connections_take_turns(mailer: Mailer) -> None:
    async with receiver() as hook:
        replies = await asyncio.gather(*[mailer.send(post(hook.url), line="a") for _ in range(3 * WEBHOOK_LANES_MAX)])
        assert all(reply.is_delivered for reply in replies)
        assert hook.connections <= WEBHOOK_LANES_MAX


async def test_a_connection_serves_again_and_is_closed_when_it_is_forgotten(mailer: Mailer) -> None:
    async with receiver() as hook:
        for _ in range(3):
            assert (await mailer.send(post(hook.url), line="a")).is_delivered
        assert hook.connections == 1
        await mailer.forget("a")
        await mailer.send(post(hook.url), line="a")
        assert hook.connections == 2


async def test_without_a_secret_nothing_is_signed(mailer: Mailer) -> None:
    async with receiver(secrets=[SECRET]) as hook:
        await mailer.send(post(hook.url, secrets=()), line="a")
    assert "webhook-signature" not in hook.messages[0].headers
    assert hook.messages[0].is_genuine is False


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("999999999", RETRY_AFTER_S_MAX),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
    ],
)
def test_retry_after_is_read_in_seconds(text: str, seconds: float | None) -> None:
    assert judged(503, text).retry_after_s == seconds
    assert judged(500, text).retry_after_s is None


def test_retry_after_is_read_as_a_date() -> None:
    at = datetime.datetime.fromtimestamp(time.time() + 100, datetime.UTC)
    wait_s = judged(429, email.utils.format_datetime(at, usegmt=True)).retry_after_s
    assert wait_s is not None
    assert 90 < wait_s <= 100
    assert judged(429, "Wed, 18 Nov 2020 21:20:00 GMT").retry_after_s == 0
