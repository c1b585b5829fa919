"""Idempotency-Key: what was done once is answered again, byte for byte."""

import dataclasses
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from virtflow.api.body import single
from virtflow.api.errors import BadHeader
from virtflow.api.exchange import Exchange
from virtflow.control.answers import Answers
from virtflow.control.orders import Receipt, Rendered
from virtflow.model.errors import Conflict
from virtflow.model.limits import IDEMPOTENCY_KEY_LENGTH_MAX
from virtflow.model.secret import Secret
from virtflow.store.contract import Answer

A = TypeVar("A")
T = TypeVar("T")


def _plain(value: object) -> object:
    """Only a digest of it is kept."""
    if isinstance(value, Secret):
        return value.reveal()
    raise TypeError(f"{type(value)} has no canonical form")


_canonical = msgspec.msgpack.Encoder(order="deterministic", enc_hook=_plain).encode


@dataclasses.dataclass(slots=True)
class Remembered(Generic[T]):
    """Renders an answer and keeps it, so that what is sent now is what will be sent again."""

    render: Callable[[T], Rendered]
    rendered: Rendered | None = None

    def __call__(self, result: T) -> Rendered:
        self.rendered = self.render(result)
        return self.rendered


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """Who asks, under which key, for what."""

    principal: str
    text: str
    request_hash: bytes

    def receipt(self, render: Callable[[T], Rendered]) -> Receipt[T]:
        return Receipt(
            principal=self.principal, key=self.text, request_hash=self.request_hash, render=Remembered(render)
        )


def key_of(exchange: Exchange, *, principal: str, meaning: object) -> Key | None:
    """The key of this request, if it has one. Requests that mean the same are the same, however they are written."""
    text = single(exchange.headers, b"idempotency-key")
    if text is None:
        return None
    if not 1 <= len(text) <= IDEMPOTENCY_KEY_LENGTH_MAX or " " in text:
        raise BadHeader(
            f"Idempotency-Key must be 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} visible ASCII characters",
            remedy="send a UUID",
        )
    line = f"{exchange.method} {exchange.path}?".encode() + exchange.scope.get("query_string", b"") + b"\n"
    digest = hashlib.blake2b(line + _canonical(meaning), digest_size=16).digest()
    return Key(principal, text, digest)


async def once(answers: Answers, key: Key | None, do: Callable[[], Awaitable[A]]) -> A | Rendered:
    """Does it, or answers what was answered before."""
    if key is None:
        return await do()
    async with answers.claim(key.principal, key.text, key.request_hash) as known:
        if known is not None:
            return _replayed(known)
        try:
            return await do()
        except Conflict:
            # the same request at another process may have been first: then its answer stands beside what it took
            theirs = await answers.recall(key.principal, key.text, key.request_hash)
            if theirs is None:
                raise
            return _replayed(theirs)


def _replayed(known: Answer) -> Rendered:
    return known.status, known.body, (*known.headers, ("idempotency-replayed", "true"))


def answer(receipt: Receipt[Any] | None, render: Callable[[Any], Rendered], result: object) -> Rendered:
    """What was stored with the result, if anything was; else the result as it is."""
    if receipt is not None and isinstance(receipt.render, Remembered) and receipt.render.rendered is not None:
        return receipt.render.rendered
    return render(result)
