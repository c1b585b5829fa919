"""Receivers of webhooks, their messages, and callbacks of tasks, as rows."""

from collections.abc import Mapping, Sequence

import msgspec

from virtflow.model.errors import Conflict, NotFound, VersionMismatch
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
from virtflow.store.secrets import about_callback, about_delivery, about_webhook
from virtflow.store.session import Reader, Row, Session
from virtflow.store.vault import Vault

_STATES = tuple(WebhookState)
_DELIVERY_STATES = tuple(DeliveryState)
_encode = msgspec.json.Encoder().encode
_events = msgspec.json.Decoder(tuple[str, ...]).decode
_secrets = msgspec.json.Decoder(tuple[tuple[str, int | None], ...]).decode
#: larger than any id
_NEWEST = b"\xff" * 16


def webhook_from_row(row: Row, vault: Vault) -> Webhook:
    return Webhook(
        name=row[0],
        url=row[1],
        description=row[2],
        events=_events(row[3]),
        secrets=tuple(
            SigningSecret(Secret(vault.open(text, about_webhook(row[0]))), until_ms)
            for text, until_ms in _secrets(row[4])
        ),
        state=_STATES[row[5]],
        code=row[6],
        reason=row[7],
        failures=row[8],
        failing_since_ms=row[9],
        retry_ms=row[10],
        version=row[11],
        work=row[12],
        created_ms=row[13],
        updated_ms=row[14],
    )


def delivery_from_row(row: Row, vault: Vault) -> Delivery:
    return Delivery(
        id=row[0],
        line=row[1],
        seq=row[2],
        type=row[3],
        subject=row[4],
        message_id=row[5],
        body=row[6],
        state=_DELIVERY_STATES[row[7]],
        tries=row[8],
        next_try_ms=row[9],
        created_ms=row[10],
        since_ms=row[11],
        ended_ms=row[12],
        status=row[13],
        code=row[14],
        duration_ms=row[15],
        url=row[16],
        secret=Secret(vault.open(row[17], about_delivery(row[0]))),
    )


def _callback_from_row(row: Row, vault: Vault) -> TaskCallback:
    task_id, url, secret = row
    return TaskCallback(task_id, Callback(url, Secret(vault.open(secret, about_callback(task_id)))))


class WebhookReads:
    _near: Reader
    _far: Reader
    _vault: Vault

    async def webhooks(self) -> list[Webhook]:
        return [webhook_from_row(row, self._vault) for row in await self._far.rows("webhooks")]

    async def webhook(self, name: str) -> Webhook | None:
        rows = await self._near.rows("webhook_by_name", name)
        return webhook_from_row(rows[0], self._vault) if rows else None

    async def waiting_deliveries(self, line: str, *, limit: int) -> list[Delivery]:
        return [delivery_from_row(row, self._vault) for row in await self._far.rows("waiting_deliveries", line, limit)]

    async def newest_delivery(self) -> bytes | None:
        rows = await self._far.rows("newest_delivery")
        return bytes(rows[0][0]) if rows else None

    async def waiting_lines(self) -> list[str]:
        return [row[0] for row in await self._far.rows("waiting_lines")]

    async def delivery(self, key: bytes) -> Delivery | None:
        rows = await self._near.rows("delivery_by_id", key)
        return delivery_from_row(rows[0], self._vault) if rows else None

    async def deliveries(
        self, line: str | None, *, state: DeliveryState | None = None, before: bytes = b"", limit: int
    ) -> list[Delivery]:
        before = before or _NEWEST
        if line is None:
            name, rest = ("callbacks_page", (limit,)) if state is None else ("callbacks_page_in", (state, limit))
            rows = await self._far.rows(name, before, *rest)
        else:
            name, rest = ("deliveries_page", (limit,)) if state is None else ("deliveries_page_in", (state, limit))
            rows = await self._far.rows(name, line, before, *rest)
        return [delivery_from_row(row, self._vault) for row in rows]

    async def count_deliveries(self) -> Mapping[tuple[str, DeliveryState], int]:
        rows = await self._far.rows("count_deliveries")
        return {(line, _DELIVERY_STATES[state]): number for line, state, number in rows}

    async def any_callback(self) -> bool:
        return bool(await self._near.rows("any_callback"))


class WebhookWrites:
    _session: Session
    _vault: Vault

    async def add_webhook(self, webhook: Webhook, *, most: int) -> None:
        [(number,)] = await self._session.rows("count_webhooks")
        if number >= most:
            raise Conflict(
                f"there are {number} webhooks already", code="too_many_webhooks", remedy="delete one that is not needed"
            )
        made = await self._session.rows(
            "add_webhook",
            webhook.name,
            webhook.url,
            webhook.description,
            _encode(webhook.events).decode(),
            _secrets_text(webhook, self._vault),
            webhook.state,
            webhook.created_ms,
            webhook.updated_ms,
        )
        if not made:
            raise Conflict(
                f"a webhook {webhook.name!r} exists",
                code="already_exists",
                remedy="choose another name, or leave it out",
            )

    async def hold_webhook(self, name: str, *, expected_version: int | None = None) -> Webhook:
        rows = await self._session.rows("webhook_held", name)
        if not rows:
            raise no_such_webhook(name)
        webhook = webhook_from_row(rows[0], self._vault)
        if expected_version is not None and webhook.version != expected_version:
            raise VersionMismatch(
                f"webhook {name!r} changed since version {expected_version}", current_version=webhook.version
            )
        return webhook

    async def change_webhook(self, webhook: Webhook) -> Webhook:
        await self._session.rows(
            "change_webhook",
            webhook.url,
            webhook.description,
            _encode(webhook.events).decode(),
            _secrets_text(webhook, self._vault),
            webhook.state,
            webhook.code,
            webhook.reason,
            webhook.failures,
            webhook.failing_since_ms,
            webhook.retry_ms,
            webhook.updated_ms,
            webhook.name,
        )
        return msgspec.structs.replace(webhook, version=webhook.version + 1, work=webhook.work + 1)

    async def give_webhook_work(self, name: str) -> None:
        await self._session.rows("give_webhook_work", name)

    async def mark_webhooks(self, marks: Sequence[WebhookHealth]) -> None:
        await self._session.each(
            "mark_webhook",
            [
                (mark.state, mark.code, mark.reason, mark.failures, mark.failing_since_ms, mark.retry_ms, mark.name)
                for mark in marks
            ],
        )

    async def delete_webhook(self, name: str) -> None:
        await self._session.rows("delete_webhook", name)
        await self._session.rows("drop_deliveries", name)

    async def add_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            await self._session.each("add_delivery", [_columns(delivery, self._vault) for delivery in deliveries])

    async def settle_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        rows = [
            (each.state, each.tries, each.next_try_ms, each.ended_ms, each.status, each.code, each.duration_ms, each.id)
            for each in deliveries
        ]
        await self._session.each("settle_delivery", rows)

    async def hasten_deliveries(self, lines: Sequence[str], *, at_ms: int) -> None:
        if lines:
            await self._session.rows("hasten_deliveries", at_ms, list(lines))

    async def deliver_again(self, key: bytes, *, at_ms: int) -> bool:
        return bool(await self._session.rows("deliver_again", at_ms, key))

    async def forget_deliveries(self, line: str, state: DeliveryState, *, keep: int) -> int:
        return len(await self._session.rows("forget_deliveries", line, state, keep))

    async def forget_callbacks(self, state: DeliveryState, *, keep: int) -> int:
        return len(await self._session.rows("forget_callbacks", state, keep))

    async def add_callbacks(self, callbacks: Sequence[TaskCallback]) -> None:
        rows = [
            (
                each.callback.url,
                self._vault.seal(each.callback.secret.reveal(), about_callback(each.task_id)),
                each.task_id,
            )
            for each in callbacks
        ]
        await self._session.each("add_callback", rows)

    async def callbacks_of(self, task_ids: Sequence[bytes]) -> list[TaskCallback]:
        return [
            _callback_from_row(row, self._vault) for row in await self._session.rows("callbacks_of", list(task_ids))
        ]

    async def take_callbacks(self, task_ids: Sequence[bytes]) -> list[TaskCallback]:
        rows = await self._session.rows("take_callbacks", list(task_ids)) if task_ids else ()
        return [_callback_from_row(row, self._vault) for row in rows]


def no_such_webhook(name: str) -> NotFound:
    return NotFound(f"no webhook {name!r}", code="webhook_not_found", remedy="virtflow webhooks list shows them all")


def _secrets_text(webhook: Webhook, vault: Vault) -> str:
    about = about_webhook(webhook.name)
    return _encode([(vault.seal(each.text.reveal(), about), each.until_ms) for each in webhook.secrets]).decode()


def _columns(delivery: Delivery, vault: Vault) -> Row:
    return (
        delivery.line,
        delivery.seq,
        delivery.type,
        delivery.subject,
        delivery.message_id,
        delivery.body,
        delivery.state,
        delivery.tries,
        delivery.next_try_ms,
        delivery.created_ms,
        delivery.since_ms,
        delivery.ended_ms,
        delivery.status,
        delivery.code,
        delivery.duration_ms,
        delivery.url,
        vault.seal(delivery.secret.reveal(), about_delivery(delivery.id)),
        delivery.id,
    )
