"""Webhooks from end to end, on both databases: real receivers, good and bad."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from tests.control.conftest import host, order

from virtflow.control.clock import SystemClock
from virtflow.control.ids import Ids
from virtflow.control.spread import Spread
from virtflow.control.webhooks import TEST
from virtflow.events import as_json, envelope
from virtflow.main import Service
from virtflow.model.errors import Conflict, Gone, InvalidRequest, NotFound
from virtflow.model.event import Event, EventType
from virtflow.model.host import Source
from virtflow.model.names import id_to_text
from virtflow.model.outlet import OutletMove
from virtflow.model.secret import Secret
from virtflow.model.webhook import Callback, Delivery, DeliveryState, Webhook, WebhookHealth, WebhookState
from virtflow.store.contract import EventFilter
from virtflow.testing.clock import ManualClock
from virtflow.testing.receiver import Behaviour, Receiver, receiver

Start = Callable[..., contextlib.AbstractAsyncContextManager[Service]]
LOOPBACK = "127.0.0.0/8"


@pytest.fixture
async def service(start: Start) -> AsyncIterator[Service]:
    async with start(webhook_allow=LOOPBACK) as service:
        yield service


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    async with receiver() as hook:
        yield hook


async def subscribe(service: Service, hook: Receiver, name: str = "ops", **more: object) -> None:
    after = more.pop("after", None)
    webhook = Webhook(**{"name": name, "url": hook.url, **more})  # type: ignore[arg-type]
    view = await service.house.webhooks.create(webhook, secret=None, after=after, actor="operator")  # type: ignore[arg-type]
    assert view.secret is not None
    hook.secrets.append(view.secret)


async def happen(service: Service, number: int, *, name: str = "bm") -> None:
    """So many events, about as many hosts."""
    hosts = [host(f"{name}-{one}") for one in range(number)]
    await service.house.hosts.register(hosts, source=Source.API, actor="operator")


async def newest(service: Service) -> int:
    return (await service.store.event_range())[1]


async def until_state(service: Service, state: WebhookState, name: str = "ops") -> Webhook:
    async with asyncio.timeout(30):
        while True:
            found = await service.store.webhook(name)
            assert found is not None
            if found.state is state:
                return found
            await asyncio.sleep(0.01)


def told(hook: Receiver) -> list[int]:
    """Numbers of the events, as they came."""
    return [int(message.event["sequence"]) for message in hook.messages]


async def test_events_arrive_signed_each_once_and_in_order_for_each_object(service: Service, hook: Receiver) -> None:
    await subscribe(service, hook, events=("host.",))
    await happen(service, 30)
    for cordoned in (True, False, True):
        await service.house.hosts.cordon("bm-0", cordoned=cordoned, expected_version=None, actor="operator")
    await hook.until(lambda hook: len(hook.messages) >= 33)
    assert all(message.is_genuine for message in hook.messages)
    assert sorted(told(hook)) == list(range(told(hook)[0], told(hook)[0] + 33))
    by_object = itertools.groupby(
        sorted(hook.messages, key=lambda m: str(m.event["subject"])), lambda m: m.event["subject"]
    )
    for _, messages in by_object:
        numbers = [message.event["data"]["seq"] for message in messages]
        assert numbers == sorted(numbers)
    assert {message.event["data"]["kind"] for message in hook.messages} == {"host"}


async def test_what_became_of_messages_is_written_down(service: Service, hook: Receiver) -> None:
    await subscribe(service, hook, events=("host.",))
    await happen(service, 3)
    await hook.until(lambda hook: len(hook.messages) >= 3)
    async with asyncio.timeout(30):
        while len(found := await service.house.webhooks.deliveries(
            "ops", state=DeliveryState.DELIVERED, before=b"", limit=10
        )) < 3:  # fmt: skip
            await asyncio.sleep(0.01)
    assert {(one.status, one.code, one.tries) for one in found} == {(204, "", 0)}
    view = await service.house.webhooks.get("ops")
    assert (view.waiting, view.dead, view.cursor) == (0, 0, await newest(service))


async def test_a_slow_and_a_silent_one_delay_nobody(service: Service, hook: Receiver) -> None:
    async with receiver(behaviour=Behaviour.SILENT) as silent, receiver(behaviour=Behaviour.SLOW, delay_s=2.0) as slow:
        await subscribe(service, silent, "silent")
        await subscribe(service, slow, "slow")
        await subscribe(service, hook, "quick", events=("host.",))
        await happen(service, 300)
        await hook.until(lambda hook: len(hook.messages) >= 300)
        assert len(silent.messages) < 300
        assert len(slow.messages) < 300


async def test_a_failing_one_gets_everything_when_it_is_back(service: Service, hook: Receiver) -> None:
    await subscribe(service, hook, events=("host.",))
    hook.behaviour = Behaviour.ERROR
    await happen(service, 20)
    failing = await until_state(service, WebhookState.FAILING)
    assert (failing.code, failing.failures >= 5) == ("http_error", True)
    assert failing.failing_since_ms is not None
    hook.messages.clear()
    hook.behaviour = Behaviour.OK
    await hook.until(lambda hook: len(set(hook.ids)) >= 20)
    recovered = await until_state(service, WebhookState.ACTIVE)
    assert (recovered.code, recovered.failures, recovered.failing_since_ms) == ("", 0, None)


async def test_one_that_is_gone_is_disabled_and_never_tried_again(service: Service, hook: Receiver) -> None:
    """F62: retried after 410 = 0, and the others are told."""
    async with receiver() as other:
        await subscribe(service, hook, "gone", events=("host.",))
        await subscribe(service, other, "other", events=("webhook.disabled",))
        hook.behaviour = Behaviour.GONE
        await happen(service, 1)
        await other.until(lambda other: len(other.messages) >= 1)
        event = other.messages[0].event["data"]
        assert (event["id"], event["code"]) == ("gone", "gone")
        await happen(service, 5, name="more")
        await service.house.hosts.delete("more-0", expected_version=None, actor="operator")
        await subscribe(service, other, "witness", events=("host.",), after=0)
        await other.until(lambda other: len(other.messages) >= 8)
        assert len(hook.messages) == 1
    disabled = await until_state(service, WebhookState.DISABLED, "gone")
    assert disabled.code == "gone"


async def test_one_that_fails_for_too_long_is_disabled_with_a_reason(start: Start, hook: Receiver) -> None:
    """It has failed for four days, as the rows say, when the process starts."""
    hook.behaviour = Behaviour.RESET
    async with start(webhook_allow=LOOPBACK) as service:
        await subscribe(service, hook, events=("host.",))
        four_days_ago_ms = SystemClock().now_ms() - 4 * 86_400_000
        async with service.store.transaction() as tx:
            await tx.mark_webhooks(
                [
                    WebhookHealth(
                        name="ops", state=WebhookState.FAILING, code="timeout", reason="no answer", failures=9,
                        failing_since_ms=four_days_ago_ms, retry_ms=0,
                    )
                ]
            )  # fmt: skip
    async with start(webhook_allow=LOOPBACK) as service:
        await happen(service, 10)
        disabled = await until_state(service, WebhookState.DISABLED)
        assert disabled.code == "failing"
        assert "too long" in disabled.reason
        events = await service.store.events(EventFilter(types=("webhook.disabled",)), after=0, limit=10)
        assert [(event.id, event.code) for event in events] == [("ops", "failing")]
        hook.behaviour = Behaviour.OK
        await service.house.webhooks.enable("ops", expected_version=None, actor="operator")
        await hook.until(
            lambda hook: {f"host/bm-{n}" for n in range(10)} <= {m.event["subject"] for m in hook.messages}
        )
        assert (await until_state(service, WebhookState.ACTIVE)).reason == ""


async def test_nothing_is_lost_over_a_restart(start: Start, hook: Receiver) -> None:
    async with start(webhook_allow=LOOPBACK) as service:
        await subscribe(service, hook, events=("host.",))
        hook.behaviour = Behaviour.SILENT
        await happen(service, 20)
        await hook.until(lambda hook: len(hook.messages) >= 1)
    hook.behaviour = Behaviour.OK
    before = len(hook.messages)
    async with start(webhook_allow=LOOPBACK):
        await hook.until(lambda hook: len({m.id for m in hook.messages[before:]}) >= 20)


async def test_both_secrets_sign_while_one_takes_the_others_place(service: Service, hook: Receiver) -> None:
    await subscribe(service, hook, events=("host.",))
    [former] = hook.secrets
    view = await service.house.webhooks.rotate(
        "ops", secret=None, overlap_s=3600, expected_version=None, actor="operator"
    )
    assert view.secret is not None
    for known in (former, view.secret):
        hook.secrets = [known]
        await until_signed(service, hook, genuine=True)
    await service.house.webhooks.rotate("ops", secret=None, overlap_s=0, expected_version=None, actor="operator")
    await until_signed(service, hook, genuine=False)


async def until_signed(service: Service, hook: Receiver, *, genuine: bool) -> None:
    """What was on its way already bears the signatures of before."""
    for number in itertools.count():
        before = len(hook.messages)
        await happen(service, 1, name=f"{'new' if genuine else 'late'}-{number}-{before}")
        await hook.until(lambda hook, before=before: len(hook.messages) > before)  # type: ignore[misc]
        if hook.messages[-1].is_genuine is genuine:
            return


async def test_a_test_says_how_it_went_also_of_a_disabled_one(service: Service, hook: Receiver) -> None:
    await subscribe(service, hook, state=WebhookState.DISABLED)
    tested = await service.house.webhooks.test("ops")
    assert (tested.state, tested.status, tested.type) == (DeliveryState.DELIVERED, 204, TEST)
    assert hook.messages[0].is_genuine
    hook.behaviour = Behaviour.ERROR
    tested = await service.house.webhooks.test("ops")
    assert (tested.state, tested.status, tested.code) == (DeliveryState.DEAD, 500, "http_error")
    again = await service.house.webhooks.redeliver("ops", id_to_text(tested.id))
    assert again.state is DeliveryState.WAITING
    with pytest.raises(NotFound):
        await service.house.webhooks.test("nobody")


async def test_one_message_is_sent_again_on_demand(service: Service, hook: Receiver) -> None:
    await subscribe(service, hook, events=("host.",))
    await happen(service, 2)
    await hook.until(lambda hook: len(hook.messages) >= 2)
    async with asyncio.timeout(30):
        while not (found := await service.house.webhooks.deliveries(
            "ops", state=DeliveryState.DELIVERED, before=b"", limit=10
        )):  # fmt: skip
            await asyncio.sleep(0.01)
    await service.house.webhooks.redeliver("ops", id_to_text(found[0].id))
    await hook.until(lambda hook: hook.ids.count(found[0].message_id) == 2)
    with pytest.raises(NotFound):
        await service.house.webhooks.redeliver("ops", id_to_text(b"x" * 16))


async def test_events_are_replayed_from_a_number(service: Service, hook: Receiver) -> None:
    await happen(service, 5)
    last = await newest(service)
    await subscribe(service, hook, events=("host.",))
    await service.house.webhooks.replay("ops", after=last - 3)
    await hook.until(lambda hook: len(hook.messages) >= 3)
    assert sorted(told(hook)) == [last - 2, last - 1, last]
    with pytest.raises(InvalidRequest):
        await service.house.webhooks.replay("ops", after=10_000)
    await service.store.trim_events(keep=1)
    with pytest.raises(Gone):
        await service.house.webhooks.replay("ops", after=0)


async def test_who_slept_while_events_were_forgotten_is_told_so(service: Service, hook: Receiver) -> None:
    await subscribe(service, hook, events=("host.",), state=WebhookState.DISABLED)
    await happen(service, 10)
    await service.store.trim_events(keep=2)
    await service.house.webhooks.enable("ops", expected_version=None, actor="operator")
    await hook.until(lambda hook: len(hook.messages) >= 1)
    gap = hook.messages[0].event
    assert (gap["type"], gap["data"]["last"]) == ("virtflow.events.gone", (await service.store.event_range())[0] - 1)


async def test_a_deleted_one_is_told_of_nothing_more(service: Service, hook: Receiver) -> None:
    await subscribe(service, hook, events=("host.",))
    await service.house.webhooks.delete("ops", expected_version=None, actor="operator")
    async with receiver() as other:
        await subscribe(service, other, "other", events=("host.",))
        await happen(service, 3)
        await other.until(lambda other: len(other.messages) >= 3)
    assert hook.messages == []
    assert await service.store.outlet("webhook/ops") is None


async def test_a_receiver_is_not_told_about_itself(service: Service, hook: Receiver) -> None:
    async with receiver() as other:
        await subscribe(service, hook, "one", events=("webhook.",))
        await subscribe(service, other, "two", events=("webhook.",))
        for name in ("one", "two"):
            await service.house.webhooks.rotate(
                name, secret=None, overlap_s=60, expected_version=None, actor="operator"
            )
        await hook.until(lambda hook: len(hook.messages) >= 2)
        await other.until(lambda other: len(other.messages) >= 1)
        assert {message.event["data"]["id"] for message in hook.messages} == {"two"}
        assert {message.event["data"]["id"] for message in other.messages} == {"one"}


async def test_what_leads_inside_is_refused_at_once(start: Start) -> None:
    async with start() as service:
        for url in ("http://127.0.0.1:9/", "http://localhost:9/", "http://[::ffff:10.0.0.1]/"):
            with pytest.raises(InvalidRequest) as refused:
                await service.house.webhooks.create(
                    Webhook(name="a", url=url), secret=None, after=None, actor="operator"
                )
            assert refused.value.error_code == "forbidden_address"
            assert refused.value.fields[0].pointer == "/url"
        callback = Callback("http://169.254.169.254/")
        with pytest.raises(InvalidRequest) as refused:
            await service.house.vms.create(
                [order(callback=callback)], together=False, actor="operator", check_pool=False
            )
        assert refused.value.fields[0].pointer == "/callback_url"


async def test_what_another_relay_wrote_down_meanwhile_is_sent_and_is_no_gap(service: Service, hook: Receiver) -> None:
    """Its term was over, its last commit was not."""
    await subscribe(service, hook)
    await happen(service, 1)
    await hook.until(lambda hook: len(hook.messages) >= 1)
    seq = await newest(service) + 1
    event = Event(type=EventType.POOL_CHANGED, kind="pool", id="p", pool="p", seq=seq)
    message = envelope(event, history_id=await service.store.history_id())
    webhook = await service.store.webhook("ops")
    assert webhook is not None
    row = Delivery(
        id=Ids(SystemClock(), os.urandom).next(), line="ops", seq=seq, type=event.type.value, subject=message.subject,
        message_id=message.id, body=as_json(message), created_ms=1, since_ms=1,
    )  # fmt: skip
    async with service.store.transaction() as tx:
        await tx.move_outlets([OutletMove(name=webhook.outlet, was=seq - 1, now=seq, at_ms=1)])
        await tx.add_deliveries([row])
        await tx.append_events([msgspec.structs.replace(event, seq=0)])
    await happen(service, 1, name="after")
    await hook.until(lambda hook: len(set(hook.ids)) >= 3)
    assert told(hook) == sorted(told(hook))
    assert seq in told(hook)
    assert {message.event["type"] for message in hook.messages} >= {"virtflow.pool.changed"}
    assert "virtflow.events.gone" not in {message.event["type"] for message in hook.messages}


async def test_who_begins_a_term_sends_what_comes_next_after_what_a_clock_that_was_ahead_left(
    service: Service, hook: Receiver
) -> None:
    """Messages wait in the order of their ids, and ids are times."""
    ahead = ManualClock(SystemClock().now_ms() + 86_400_000)
    spread = Spread(store=service.store, clock=SystemClock(), ids=(ids := Ids(SystemClock(), os.urandom)))
    left = Delivery(
        id=Ids(ahead, os.urandom).next(), line="ops", seq=1, type="host.changed", subject="host/a", message_id="m",
        body=b"{}", created_ms=1, since_ms=1,
    )  # fmt: skip
    async with service.store.transaction() as tx:
        await tx.add_deliveries([left])
    assert await service.store.newest_delivery() == left.id
    await spread.load()
    assert ids.next() > left.id


async def test_a_name_is_taken_once(service: Service, hook: Receiver) -> None:
    await subscribe(service, hook)
    with pytest.raises(Conflict):
        await subscribe(service, hook)


# ── callbacks of tasks ────────────────────────────────────────────────────────────────────────────


async def test_the_end_of_a_task_is_told_to_whoever_asked_for_it(service: Service, hook: Receiver) -> None:
    secret = Secret("whsec_" + "A" * 32)
    hook.secrets = [secret]
    await happen(service, 1)
    orders = [
        order("placed", callback=Callback(f"{hook.url}?placed", secret)),
        order("quiet"),
        order("other", callback=Callback(f"{hook.url}?other", secret)),
    ]
    await service.house.vms.create(orders, together=False, actor="operator", check_pool=False)
    await hook.until(lambda hook: len(hook.messages) >= 2)
    assert {message.path for message in hook.messages} == {"/hook?placed", "/hook?other"}
    assert {message.event["type"] for message in hook.messages} == {"virtflow.task.completed"}
    assert all(message.is_genuine for message in hook.messages)
    assert not await service.store.any_callback()
    async with asyncio.timeout(30):
        while len(found := await service.house.webhooks.deliveries(
            "-", state=DeliveryState.DELIVERED, before=b"", limit=10
        )) < 2:  # fmt: skip
            await asyncio.sleep(0.01)
    again = await service.house.webhooks.redeliver("-", id_to_text(found[0].id))
    await hook.until(lambda hook: hook.ids.count(again.message_id) == 2)


async def test_a_callback_survives_a_restart_between_acceptance_and_end(start: Start, hook: Receiver) -> None:
    async with start(webhook_allow=LOOPBACK) as service:
        await service.house.vms.create(
            [order("later", callback=Callback(hook.url))], together=False, actor="operator", check_pool=False
        )
        assert hook.messages == []
    async with start(webhook_allow=LOOPBACK) as service:
        await service.house.vms.delete("later", expected_version=None, actor="operator")
        await hook.until(lambda hook: len(hook.messages) >= 1)
        assert hook.messages[0].event["type"] == "virtflow.task.cancelled"


async def test_callbacks_to_a_broken_place_hold_up_no_others(service: Service, hook: Receiver) -> None:
    async with receiver(behaviour=Behaviour.SILENT) as silent:
        await happen(service, 10)
        orders = [order(f"vm-{n}", callback=Callback((silent, hook)[n % 2].url)) for n in range(40)]
        await service.house.vms.create(orders, together=False, actor="operator", check_pool=False)
        await hook.until(lambda hook: len(set(hook.ids)) >= 20)
        assert len(silent.messages) < 20
