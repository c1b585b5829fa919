"""What fails for good leaves a letter in the same commit; it is sent again once, whoever and however many ask."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from tests.control.conftest import host, order, wish
from tests.control.test_schedule import create, ended, register

from virtflow.control.fsck import fsck
from virtflow.main import Service
from virtflow.model.dead import DeadKind, DeadLetter
from virtflow.model.errors import Conflict, NotFound
from virtflow.model.event import EventType
from virtflow.model.limits import DEAD_MESSAGES_MAX
from virtflow.model.names import id_from_text, id_to_text
from virtflow.model.secret import Secret
from virtflow.model.task import TaskState, WhenUnplaceable
from virtflow.model.webhook import Callback
from virtflow.queue import DeadMessage
from virtflow.store.contract import EventFilter

Start = Callable[..., contextlib.AbstractAsyncContextManager[Service]]
FAIL = WhenUnplaceable.FAIL
MALFORMED = DeadMessage(code="malformed_message", reason="not a knock", body=b"\xff{}")


async def fail(service: Service, *names: str | None, cores: int = 3, **more: object) -> bytes:
    """Orders that nothing can carry; returns the id of the first task when all is over."""
    orders = [order(name, want=wish(cores=cores), when_unplaceable=FAIL, **more) for name in names]
    views = await create(service, *orders, together=len(orders) > 1)
    for view in views:
        assert (await ended(service, view.task_id)).task.state is TaskState.FAILED
    return views[0].task_id


async def letters(service: Service, **where: object) -> list[DeadLetter]:
    asked = {"with_requeued": False, "kind": None, "after": 0, "limit": 100, **where}
    return list(await service.house.dead.list(**asked))  # type: ignore[arg-type]


async def requeue(service: Service, letter_id: str) -> DeadLetter:
    return await service.house.dead.requeue(letter_id, actor="test")


async def events(service: Service, prefix: str) -> list[tuple[EventType, str, str]]:
    found = await service.store.events(EventFilter(types=(prefix,)), after=0, limit=1000)
    return [(event.type, event.id, event.task) for event in found]


@pytest.fixture
async def small(service: Service) -> Service:
    await register(service, host("bm-1", cores=2))
    return service


async def test_a_request_that_fails_leaves_a_letter_with_its_reason(small: Service) -> None:
    key = await fail(small, "web")
    (letter,) = await letters(small)
    task = (await small.house.tasks.get(key)).task
    assert (letter.id, letter.kind, letter.tasks) == (id_to_text(key), DeadKind.TASK, [id_to_text(key)])
    assert (letter.code, letter.reason, letter.at_ms) == (task.code, task.reason, task.ended_ms)
    assert (letter.failed.vm, letter.failed.pool) == ("web", "default")


async def test_a_request_that_is_late_leaves_one_too(start: Start) -> None:
    async with start() as service:
        await register(service, host("bm-1", cores=2))
        view = (await create(service, order(want=wish(cores=3), deadline_s=1)))[0]
        await ended(service, view.task_id)
        assert [(letter.id, letter.code) for letter in await letters(service)] == [
            (id_to_text(view.task_id), "deadline_exceeded")
        ]


async def test_what_is_placed_or_cancelled_leaves_none(small: Service) -> None:
    await create(small, order("fits"))
    view = (await create(small, order("waits", want=wish(cores=3))))[0]
    await small.house.tasks.cancel(view.task_id, expected_version=None, actor="test")
    assert await letters(small) == []


async def test_sent_again_it_is_a_new_task_for_a_vm_of_the_same_name(small: Service) -> None:
    old = await fail(small, "web", priority=7)
    await register(small, host("bm-2", cores=8))
    sent = await requeue(small, id_to_text(old))
    new = await small.house.tasks.get(id_from_text(sent.requeued_as or ""))
    assert new.task.id != old
    assert (new.task.state, new.task.host, new.task.vm_name) == (TaskState.COMPLETED, "bm-2", "web")
    assert (new.task.priority, new.task.when_unplaceable, new.shape) == (7, FAIL, wish(cores=3))
    assert (await small.house.tasks.get(old)).task.state is TaskState.FAILED  # over is over
    assert await letters(small) == []
    assert await letters(small, with_requeued=True) == [sent]
    assert await events(small, "dead.") == [(EventType.DEAD_REQUEUED, id_to_text(old), sent.requeued_as)]
    assert (await fsck(small.store)).violations == []


async def test_who_wanted_to_hear_of_the_end_hears_of_that_of_the_new_task_too(start: Start) -> None:
    callback = Callback("http://127.0.0.1:9/placed", Secret("whsec_" + "c2VjcmV0" * 4))
    async with start(webhook_allow="127.0.0.0/8") as service:
        await register(service, host("bm-1", cores=2))
        old = await fail(service, "web", "db", callback=callback)
        assert "c2VjcmV0" not in repr((await letters(service))[0].failed.callback_of(id_to_text(old)))
        await register(service, host("bm-2", cores=8))
        sent = await requeue(service, id_to_text(old))
        new = id_from_text(sent.requeued_as or "")
        async with asyncio.timeout(30):
            while True:
                messages = {one.subject: one for one in await service.store.deliveries(None, limit=10)}
                if len(messages) == 4:
                    break
                await asyncio.sleep(0.02)
        again = messages[f"task/{id_to_text(new)}"]
        assert (again.type, again.url, again.secret) == ("task.completed", callback.url, callback.secret)
        assert messages[f"task/{id_to_text(old)}"].type == "task.failed"


async def test_it_may_fail_again_and_leave_another_letter(small: Service) -> None:
    old = await fail(small, None)
    sent = await requeue(small, id_to_text(old))
    await ended(small, id_from_text(sent.requeued_as or ""))
    assert [letter.id for letter in await letters(small)] == [sent.requeued_as]


async def test_it_is_sent_again_once_however_many_ask(small: Service) -> None:
    old = id_to_text(await fail(small, "web"))
    await register(small, host("bm-2", cores=80))
    results = await asyncio.gather(*(requeue(small, old) for _ in range(5)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, Conflict)]
    assert len(refused) == 4
    assert {error.error_code for error in refused} == {"already_requeued"}
    with pytest.raises(Conflict, match="sent again already as task"):
        await requeue(small, old)
    assert (await small.store.counts()).instances == 1


async def test_the_database_decides_who_is_first(small: Service) -> None:
    """As if another process had sent it between our look and our commit."""
    old = id_to_text(await fail(small, "web"))
    stale = await small.house.dead.get(old)
    async with small.store.transaction() as tx:
        assert await tx.requeue_dead(old, now_as="elsewhere", at_ms=1)
    tasks = (await small.store.counts()).tasks
    with pytest.raises(Conflict) as refused:
        await small.house.dead._requeue_tasks(stale, actor="test", receipt=None)
    assert refused.value.error_code == "already_requeued"
    assert (await small.store.counts()).tasks == tasks


async def test_a_name_that_was_taken_meanwhile_leaves_the_letter_as_it_was(small: Service) -> None:
    old = id_to_text(await fail(small, "web"))
    await create(small, order("web"))
    with pytest.raises(Conflict) as refused:
        await requeue(small, old)
    assert refused.value.error_code == "already_exists"
    assert [letter.id for letter in await letters(small)] == [old]
    await small.house.vms.delete("web", expected_version=None, actor="test")
    assert (await requeue(small, old)).requeued_as


async def test_those_who_share_one_fate_share_a_letter(small: Service) -> None:
    await fail(small, "a", "b", "c", cores=1)  # each fits, all together do not
    (letter,) = await letters(small)
    assert len(letter.tasks) == 3
    await register(small, host("bm-2", cores=3))
    await requeue(small, letter.id)
    for name in ("a", "b", "c"):
        assert (await small.house.vms.get(name)).instance.host is not None


async def test_a_message_that_cannot_be_read_is_kept_and_can_only_be_thrown_away(small: Service) -> None:
    await small.house.dead.set_aside(MALFORMED)
    (letter,) = await letters(small, kind=DeadKind.MESSAGE)
    assert (letter.code, letter.reason, letter.body) == ("malformed_message", "not a knock", MALFORMED.body)
    assert await events(small, "dead.") == [(EventType.DEAD_ADDED, letter.id, "")]
    with pytest.raises(Conflict) as refused:
        await requeue(small, letter.id)
    assert refused.value.error_code == "cannot_requeue"
    await small.house.dead.delete(letter.id, actor="test")
    assert await letters(small) == []
    assert (await events(small, "dead."))[-1] == (EventType.DEAD_DELETED, letter.id, "")
    with pytest.raises(NotFound):
        await small.house.dead.delete(letter.id, actor="test")


async def test_a_message_that_can_be_read_is_called_out_again(start: Start) -> None:
    async with start() as service:
        await service.house.dead.set_aside(
            DeadMessage(code="undeliverable_message", reason="it failed", body=b'{"tasks":["task-1"]}')
        )
        (letter,) = await letters(service)
        sent = await requeue(service, letter.id)
        assert (sent.requeued_ms is not None, sent.requeued_as) == (True, None)
        with pytest.raises(Conflict):
            await requeue(service, letter.id)


async def test_messages_beyond_the_bound_are_left_to_the_broker(
    small: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("virtflow.control.dead.DEAD_MESSAGES_MAX", 2)
    assert DEAD_MESSAGES_MAX > 2
    for _ in range(4):
        await small.house.dead.set_aside(MALFORMED)
    assert len(await letters(small)) == 2


async def test_old_letters_are_swept(start: Start) -> None:
    async with start(dead_keep_s="60") as service:
        await register(service, host("bm-1", cores=2))
        await fail(service, None)
        await service.housekeeping.sweep()
        assert len(await letters(service)) == 1
        async with service.store.transaction() as tx:
            await tx.add_dead([DeadLetter(id="old", kind=DeadKind.MESSAGE, code="x", reason="x", at_ms=1)])
        await service.housekeeping.sweep()
        assert [letter.id for letter in await letters(service)] != ["old"]
        assert len(await letters(service)) == 1


async def test_letters_are_counted_for_the_metrics(small: Service) -> None:
    await fail(small, None)
    await small.house.dead.set_aside(MALFORMED)
    text = (await small.house.metrics.text()).decode()
    assert 'virtflow_dead_letters{kind="task"} 1.0' in text
    assert 'virtflow_dead_letters{kind="message"} 1.0' in text
