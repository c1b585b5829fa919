"""Receivers, their messages and callbacks of tasks: what was written comes back, and nobody is told twice by a race."""

import msgspec
import pytest
from tests.store.builders import NOW_MS, key

from virtflow.model.errors import Conflict, NotFound, VersionMismatch
from virtflow.model.outlet import Outlet
from virtflow.model.secret import Secret
from virtflow.model.webhook import (
    Callback,
    Delivery,
    DeliveryState,
    SigningSecret,
    TaskCallback,
    Webhook,
    WebhookHealth,
    WebhookState,
)
from virtflow.store.contract import Store

NEW, OLD = Secret("whsec_new"), Secret("whsec_old")


def webhook(name: str = "ops", **more: object) -> Webhook:
    given = {"url": "https://hooks.example/in", "events": ("task.", "host.missing"), "description": "for us", **more}
    secrets = (SigningSecret(NEW), SigningSecret(OLD, NOW_MS + 9))
    return Webhook(name=name, secrets=secrets, created_ms=NOW_MS, updated_ms=NOW_MS, **given)  # type: ignore[arg-type]


def delivery(number: int, *, line: str = "ops", **more: object) -> Delivery:
    given = {"seq": number, "type": "task.failed", "subject": f"task/{number}", "message_id": f"m-{number}", **more}
    return Delivery(
        **{"id": key(number), "line": line, "body": b"{}", "created_ms": NOW_MS, "since_ms": NOW_MS, **given}  # type: ignore[arg-type]
    )


async def add(store: Store, *webhooks: Webhook, deliveries: tuple[Delivery, ...] = ()) -> None:
    async with store.transaction() as tx:
        for one in webhooks:
            await tx.add_webhook(one, most=100)
        await tx.add_deliveries(deliveries)


async def test_a_webhook_comes_back_as_it_was_written(store: Store) -> None:
    await add(store, webhook("b"), webhook("a", state=WebhookState.DISABLED))
    assert await store.webhook("b") == webhook("b")
    assert await store.webhook("c") is None
    assert [one.name for one in await store.webhooks()] == ["a", "b"]
    found = await store.webhook("b")
    assert found is not None
    assert [secret.text.reveal() for secret in found.secrets] == ["whsec_new", "whsec_old"]
    assert "whsec_" not in repr(found)


async def test_a_name_is_taken_once_and_there_are_only_so_many(store: Store) -> None:
    await add(store, webhook("a"))
    for one, most, code in ((webhook("a"), 100, "already_exists"), (webhook("b"), 1, "too_many_webhooks")):
        with pytest.raises(Conflict) as refused:
            async with store.transaction() as tx:
                await tx.add_webhook(one, most=most)
        assert refused.value.error_code == code


async def test_a_change_raises_the_version_and_calls_the_deliverer(store: Store) -> None:
    await add(store, webhook())
    async with store.transaction() as tx:
        held = await tx.hold_webhook("ops", expected_version=1)
        changed = await tx.change_webhook(msgspec.structs.replace(held, url="http://other.example/"))
    assert await store.webhook("ops") == changed
    assert (changed.version, changed.work) == (2, 1)
    async with store.transaction() as tx:
        await tx.give_webhook_work("ops")
    found = await store.webhook("ops")
    assert found is not None
    assert (found.version, found.work) == (2, 2)
    with pytest.raises(VersionMismatch):
        async with store.transaction() as tx:
            await tx.hold_webhook("ops", expected_version=1)
    with pytest.raises(NotFound):
        async with store.transaction() as tx:
            await tx.hold_webhook("nobody")


async def test_what_sending_tells_is_kept_but_for_those_that_are_off(store: Store) -> None:
    await add(store, webhook("on"), webhook("off", state=WebhookState.DISABLED))
    marks = [
        WebhookHealth(
            name=name, state=WebhookState.FAILING, code="timeout", reason="no answer", failures=7,
            failing_since_ms=NOW_MS, retry_ms=NOW_MS + 5,
        )
        for name in ("on", "off", "gone")
    ]  # fmt: skip
    async with store.transaction() as tx:
        await tx.mark_webhooks(marks)
        await tx.mark_webhooks([])
    found = {one.name: (one.state, one.failures, one.retry_ms, one.version) for one in await store.webhooks()}
    assert found == {
        "on": (WebhookState.FAILING, 7, NOW_MS + 5, 1),
        "off": (WebhookState.DISABLED, 0, 0, 1),
    }


async def test_messages_wait_in_order_until_they_are_settled(store: Store) -> None:
    rows = (delivery(2), delivery(1), delivery(3, line="other"), delivery(4, url="http://x.example/", line="http://x"))
    await add(store, webhook(), deliveries=rows)
    assert await store.waiting_deliveries("ops", limit=10) == [rows[1], rows[0]]
    assert await store.waiting_deliveries("ops", limit=1) == [rows[1]]
    assert sorted(await store.waiting_lines()) == ["http://x", "ops", "other"]
    done = delivery(1, state=DeliveryState.DELIVERED, status=204, duration_ms=7, ended_ms=NOW_MS + 1)
    again = delivery(2, tries=1, next_try_ms=NOW_MS + 5000, code="timeout")
    async with store.transaction() as tx:
        await tx.settle_deliveries([done, again])
    assert await store.waiting_deliveries("ops", limit=10) == [again]
    assert await store.delivery(done.id) == done
    async with store.transaction() as tx:  # a second one, that was late, changes nothing
        await tx.settle_deliveries([delivery(1, state=DeliveryState.DEAD)])
        await tx.hasten_deliveries(["ops"], at_ms=NOW_MS + 7)
    assert await store.delivery(done.id) == done
    assert (await store.waiting_deliveries("ops", limit=10))[0].next_try_ms == NOW_MS + 7
    assert await store.count_deliveries() == {
        ("ops", DeliveryState.WAITING): 1,
        ("other", DeliveryState.WAITING): 1,
        ("http://x", DeliveryState.WAITING): 1,
    }


async def test_the_id_that_sorts_last_is_told_whatever_became_of_its_message(store: Store) -> None:
    assert await store.newest_delivery() is None
    await add(store, deliveries=(delivery(2), delivery(3, state=DeliveryState.DELIVERED), delivery(1)))
    assert await store.newest_delivery() == key(3)


async def test_messages_are_listed_the_newest_first_by_state_and_in_pages(store: Store) -> None:
    dead = DeliveryState.DEAD
    rows = [delivery(n, state=dead if n % 2 else DeliveryState.WAITING) for n in range(1, 6)]
    calls = [delivery(n, line=f"http://h{n}", url=f"http://h{n}/", secret=Secret("s"), state=dead) for n in (8, 9)]
    await add(store, webhook(), deliveries=(*rows, *calls))
    assert [one.seq for one in await store.deliveries("ops", limit=10)] == [5, 4, 3, 2, 1]
    assert [one.seq for one in await store.deliveries("ops", state=dead, limit=2)] == [5, 3]
    assert [one.seq for one in await store.deliveries("ops", state=dead, before=key(3), limit=2)] == [1]
    assert await store.deliveries(None, limit=10) == [calls[1], calls[0]]
    assert await store.deliveries(None, state=DeliveryState.WAITING, limit=10) == []
    assert await store.deliveries(None, state=dead, before=key(9), limit=10) == [calls[0]]


async def test_a_message_is_sent_again_once_and_the_oldest_are_forgotten(store: Store) -> None:
    rows = tuple(delivery(n, state=DeliveryState.DELIVERED, ended_ms=NOW_MS, tries=3) for n in range(1, 6))
    calls = tuple(delivery(n, line="http://h", url="http://h/", state=DeliveryState.DEAD) for n in (8, 9))
    await add(store, webhook(), deliveries=rows + calls)
    async with store.transaction() as tx:
        assert await tx.deliver_again(key(2), at_ms=NOW_MS + 4)
        assert not await tx.deliver_again(key(2), at_ms=NOW_MS + 5)
        assert not await tx.deliver_again(key(77), at_ms=NOW_MS)
    assert await store.delivery(key(2)) == delivery(2, next_try_ms=NOW_MS + 4, since_ms=NOW_MS + 4)
    async with store.transaction() as tx:
        assert await tx.forget_deliveries("ops", DeliveryState.DELIVERED, keep=2) == 2
        assert await tx.forget_deliveries("ops", DeliveryState.DELIVERED, keep=2) == 0
        assert await tx.forget_callbacks(DeliveryState.DEAD, keep=1) == 1
    assert [one.seq for one in await store.deliveries("ops", limit=10)] == [5, 4, 2]
    async with store.transaction() as tx:
        await tx.delete_webhook("ops")
    assert await store.webhooks() == []
    assert await store.deliveries("ops", limit=10) == []
    assert [one.seq for one in await store.deliveries(None, limit=10)] == [9]


async def test_callbacks_are_taken_once(store: Store) -> None:
    assert not await store.any_callback()
    one = TaskCallback(b"\x00given", Callback("http://h/1", Secret("whsec_x")))
    other = TaskCallback(key(2), Callback("http://h/2"))
    async with store.transaction() as tx:
        await tx.add_callbacks([one, other])
    assert await store.any_callback()
    async with store.transaction() as tx:
        taken = await tx.take_callbacks([one.task_id, key(9)])
        assert await tx.take_callbacks([one.task_id]) == []
        assert await tx.take_callbacks([]) == []
    assert taken == [one]
    assert taken[0].callback.secret.reveal() == "whsec_x"
    assert await store.any_callback()


async def test_an_outlet_is_placed_wherever_it_was(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.add_outlets([Outlet(name="a", kind="webhook", cursor=7, error="away")])
    async with store.transaction() as tx:
        await tx.place_outlet("a", cursor=2, at_ms=NOW_MS + 3)
    found = await store.outlet("a")
    assert found is not None
    assert (found.cursor, found.error, found.updated_ms) == (2, "", NOW_MS + 3)
