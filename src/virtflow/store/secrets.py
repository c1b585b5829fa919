"""Where secrets stand in the tables, and how all of them come under another key."""

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from virtflow.model.dead import FailedTasks
from virtflow.store.session import Reader, Session
from virtflow.store.vault import Vault, key_of

#: what `store/vault.py` does to one secret: the text, and whose it is
Step = Callable[[str, str], str]
_pairs = msgspec.json.Decoder(list[tuple[str, int | None]]).decode
_failed = msgspec.json.Decoder(FailedTasks).decode
_encode = msgspec.json.Encoder().encode
_CALLBACKS = b'"callbacks"'


class Place(enum.StrEnum):
    WEBHOOK = "webhook"
    CALLBACK = "callback"
    DELIVERY = "delivery"
    DEAD = "dead"


class AtRest(NamedTuple):
    """The secrets of one row, as they stand there."""

    key: str | bytes
    stored: str | bytes

    @property
    def keys(self) -> list[str]:
        """Of each of them the name of the key that sealed it; empty of those in the clear."""
        return [key_of(text) for text in _texts(self.stored)]


def _texts(stored: str | bytes) -> list[str]:
    if isinstance(stored, bytes):
        return [secret for _, secret in _failed(stored).callbacks.values() if secret]
    return [text for text, _ in _pairs(stored)] if stored.startswith("[") else [stored]


def about_webhook(name: str) -> str:
    return f"webhook {name}"


def about_callback(task_id: bytes) -> str:
    return f"callback {task_id.hex()}"


def about_delivery(delivery_id: bytes) -> str:
    return f"delivery {delivery_id.hex()}"


def with_secrets(body: bytes, step: Step) -> bytes:
    """The letter of failed tasks, its secrets sealed or opened."""
    if _CALLBACKS not in body:
        return body
    failed = _failed(body)
    changed = {task: (url, step(secret, f"letter {task}")) for task, (url, secret) in failed.callbacks.items()}
    return _encode(msgspec.structs.replace(failed, callbacks=changed))


class SecretReads:
    _far: Reader

    async def secrets_at_rest(self, place: Place, *, after: str | bytes, limit: int) -> list[AtRest]:
        """Rows with secrets, in the order of their keys."""
        name = {
            Place.WEBHOOK: "secrets_of_webhooks",
            Place.CALLBACK: "secrets_of_callbacks",
            Place.DELIVERY: "secrets_of_deliveries",
            Place.DEAD: "secrets_of_dead",
        }[place]
        return [AtRest(key, stored) for key, stored in await self._far.rows(name, after, limit)]


class SecretWrites:
    _session: Session
    _vault: Vault

    async def reseal(self, place: Place, found: Sequence[AtRest]) -> None:
        """Under the key of today, where nobody has written anything else meanwhile."""
        name = {
            Place.WEBHOOK: "reseal_webhook",
            Place.CALLBACK: "reseal_callback",
            Place.DELIVERY: "reseal_delivery",
            Place.DEAD: "reseal_dead",
        }[place]
        for one in found:
            await self._session.rows(name, self._sealed_anew(place, one), one.key, one.stored)

    def _sealed_anew(self, place: Place, one: AtRest) -> str | bytes:
        if isinstance(one.stored, bytes):
            return with_secrets(one.stored, self._again)
        if isinstance(one.key, str):
            return _encode(
                [(self._again(text, about_webhook(one.key)), until) for text, until in _pairs(one.stored)]
            ).decode()
        about = about_callback if place is Place.CALLBACK else about_delivery
        return self._again(one.stored, about(one.key))

    def _again(self, text: str, about: str) -> str:
        return self._vault.seal(self._vault.open(text, about), about)
