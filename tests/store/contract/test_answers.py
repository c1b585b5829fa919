"""Answers by Idempotency-Key: one for each, for a while."""

import asyncio

import pytest

from virtflow.model.errors import Conflict
from virtflow.store import housekeeping
from virtflow.store.contract import Answer, Store


def answer(key: str, *, principal: str = "p", at_ms: int = 5) -> Answer:
    return Answer(
        principal=principal,
        key=key,
        request_hash=b"\x00\xff",
        status=202,
        body=b'{"a": "\xc3\xa4"}',
        created_ms=at_ms,
        headers=(("Location", "/v1/x"), ("ETag", '"1"')),
    )


async def remember(store: Store, *answers: Answer) -> None:
    async with store.transaction() as tx:
        await tx.remember_answers(answers)


async def test_an_answer_comes_back_word_for_word(store: Store) -> None:
    await remember(store, answer("k"), answer("k", principal="q"))
    assert await store.answer("p", "k") == answer("k")
    assert await store.answer("q", "k") == answer("k", principal="q")
    assert await store.answer("p", "other") is None
    await remember(store)


async def test_the_second_with_a_key_is_refused(store: Store) -> None:
    await remember(store, answer("k"))
    with pytest.raises(Conflict) as caught:
        await remember(store, answer("new"), answer("k", at_ms=9))
    assert caught.value.error_code == "idempotency_key_in_use"
    assert await store.answer("p", "new") is None


async def test_one_key_from_many_sides_at_once(store: Store) -> None:
    async def claim(number: int) -> bool:
        try:
            await remember(store, answer("k", at_ms=number))
        except Conflict:
            return False
        return True

    assert sum(await asyncio.gather(*(claim(number) for number in range(20)))) == 1


async def test_old_answers_are_forgotten(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "ANSWERS_FORGOTTEN_AT_ONCE", 3)
    await remember(store, *(answer(f"k{number}", at_ms=number) for number in range(10)))
    assert await store.forget_answers(before_ms=7) == 7
    assert await store.forget_answers(before_ms=7) == 0
    assert await store.answer("p", "k6") is None
    assert await store.answer("p", "k7") == answer("k7", at_ms=7)
