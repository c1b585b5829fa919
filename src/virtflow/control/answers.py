"""Idempotency keys: the same request is done once and answered the same, also across restarts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine

from virtflow.control.submission import StillUnderWay
from virtflow.model.errors import Conflict, KeyReused
from virtflow.model.limits import ANSWER_S_MAX
from virtflow.store.contract import Answer, Store


class Answers:
    """Looks up what was answered, and lets a second request with the same key wait for the first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._in_flight: dict[tuple[str, str], asyncio.Event] = {}

    @contextlib.asynccontextmanager
    async def claim(self, principal: str, key: str, request_hash: bytes) -> AsyncIterator[Answer | None]:
        """Yields the former answer, or None: then do it, and store the answer with it."""
        slot = (principal, key)
        while (first := self._in_flight.get(slot)) is not None:
            await _patiently(first.wait())
        done = self._in_flight[slot] = asyncio.Event()
        over: asyncio.Future[None] | None = None
        try:
            yield await self.recall(principal, key, request_hash)
        except StillUnderWay as unknown:
            over = unknown.over  # who asks again waits until it is known what became of it
            raise
        finally:
            if over is None:
                self._release(slot, done)
            else:
                over.add_done_callback(lambda _: self._release(slot, done))

    def _release(self, slot: tuple[str, str], done: asyncio.Event) -> None:
        del self._in_flight[slot]
        done.set()

    async def recall(self, principal: str, key: str, request_hash: bytes) -> Answer | None:
        """What this key was answered, if anything."""
        answer = await self._store.answer(principal, key)
        if answer is not None and answer.request_hash != request_hash:
            raise KeyReused(
                "this Idempotency-Key came before with another request",
                remedy="use a new key for a new request, or send the first request unchanged",
            )
        return answer


async def _patiently(wait: Coroutine[object, object, object]) -> None:
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            await wait
    except TimeoutError as error:
        raise Conflict(
            "the first request of this Idempotency-Key is still under way",
            code="idempotency_key_in_use",
            remedy="send it again in a moment",
        ) from error
