"""Dead letters: written down once, sent again once, forgotten when old."""

from tests.store.builders import NOW_MS

from virtflow.model.dead import DeadKind, DeadLetter, letter_of_tasks
from virtflow.store.contract import Store


def letter(name: str, *, kind: DeadKind = DeadKind.TASK, at_ms: int = NOW_MS) -> DeadLetter:
    if kind is DeadKind.TASK:
        return letter_of_tasks([name], vm="web", pool="gold", code="no_room", reason="none fits", at_ms=at_ms)
    return DeadLetter(id=name, kind=kind, code="unread", reason="no knock", body=b"\xff\x00 no knock", at_ms=at_ms)


async def add(store: Store, *letters: DeadLetter) -> None:
    async with store.transaction() as tx:
        await tx.add_dead(letters)


async def requeue(store: Store, name: str, *, now_as: str | None = "new") -> bool:
    async with store.transaction() as tx:
        return await tx.requeue_dead(name, now_as=now_as, at_ms=NOW_MS + 1)


async def names(store: Store, **where: object) -> list[str]:
    return [letter.id for letter in await store.dead(limit=100, **where)]  # type: ignore[arg-type]


async def test_a_letter_comes_back_as_it_was_written(store: Store) -> None:
    await add(store, letter("task-1"), letter("message-1", kind=DeadKind.MESSAGE))
    found = await store.dead(limit=10)
    assert [(one.id, one.kind, one.code, one.reason, one.body, one.at_ms, one.requeued_ms) for one in found] == [
        ("task-1", "task", "no_room", "none fits", b'{"tasks":["task-1"],"vm":"web","pool":"gold"}', NOW_MS, None),
        ("message-1", "message", "unread", "no knock", b"\xff\x00 no knock", NOW_MS, None),
    ]
    assert found[0].tasks == ["task-1"]
    assert found[1].tasks == []
    assert await store.dead_letter("task-1") == found[0]
    assert await store.dead_letter("nobody") is None


async def test_what_died_once_is_written_down_once(store: Store) -> None:
    await add(store, letter("a"))
    await add(store, letter("a", at_ms=NOW_MS + 9), letter("b"))
    assert [(one.id, one.at_ms) for one in await store.dead(limit=10)] == [("a", NOW_MS), ("b", NOW_MS)]


async def test_it_is_sent_again_once_and_then_shown_on_request_only(store: Store) -> None:
    await add(store, letter("a"), letter("b"))
    assert await requeue(store, "a", now_as="c")
    assert not await requeue(store, "a", now_as="d")
    assert not await requeue(store, "nobody")
    assert await names(store) == ["b"]
    assert await names(store, with_requeued=True) == ["a", "b"]
    found = await store.dead_letter("a")
    assert found is not None
    assert (found.requeued_ms, found.requeued_as, found.is_open) == (NOW_MS + 1, "c", False)


async def test_a_sending_that_is_rolled_back_never_was(store: Store) -> None:
    await add(store, letter("a"))
    try:
        async with store.transaction() as tx:
            assert await tx.requeue_dead("a", now_as="b", at_ms=NOW_MS)
            raise KeyError
    except KeyError:
        pass
    assert await requeue(store, "a")


async def test_letters_come_in_pages_and_by_kind(store: Store) -> None:
    await add(store, *(letter(f"t{n}") for n in range(5)), letter("m", kind=DeadKind.MESSAGE))
    first = await store.dead(limit=2)
    rest = await store.dead(limit=10, after=first[-1].number)
    assert [one.id for one in [*first, *rest]] == ["t0", "t1", "t2", "t3", "t4", "m"]
    assert await names(store, kind=DeadKind.MESSAGE) == ["m"]
    assert await store.dead_counts() == {DeadKind.TASK: 5, DeadKind.MESSAGE: 1}
    await requeue(store, "t3")
    assert await store.dead_counts() == {DeadKind.TASK: 4, DeadKind.MESSAGE: 1}


async def test_letters_are_removed_and_old_ones_forgotten(store: Store) -> None:
    await add(store, *(letter(f"t{n}", at_ms=NOW_MS + n) for n in range(5)))
    async with store.transaction() as tx:
        assert await tx.remove_dead("t4")
        assert not await tx.remove_dead("t4")
    assert await store.forget_dead(before_ms=NOW_MS + 2) == 2
    assert await names(store) == ["t2", "t3"]
