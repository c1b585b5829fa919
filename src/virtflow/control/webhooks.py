"""Receivers of webhooks: made, changed, tried out, told again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from virtflow.control.deliver import Observer
from virtflow.control.ids import Ids
from virtflow.control.orders import Receipt
from virtflow.control.settle import switch_off, webhook_event
from virtflow.events import Forbidden, Guard, Mailer, Post, Unresolved, notice
from virtflow.model.clock import Clock
from virtflow.model.errors import Busy, FieldProblem, Gone, InvalidRequest, NotFound
from virtflow.model.event import Event, EventType
from virtflow.model.limits import WEBHOOKS_MAX
from virtflow.model.names import id_from_text
from virtflow.model.outlet import Outlet
from virtflow.model.secret import Secret
from virtflow.model.url import read_url
from virtflow.model.views import WebhookView
from virtflow.model.webhook import (
    CALLBACKS,
    KIND,
    SECRET_BYTES_MIN,
    Delivery,
    DeliveryState,
    SigningSecret,
    Webhook,
    WebhookState,
    check_webhook_move,
    secret_text,
)
from virtflow.store.contract import Store, Transaction

TEST = "webhook.test"
#: tests under way at a time in one process
TESTS_MAX = 8
LOOK_UP_S_MAX = 2.0

_Change = Callable[[Webhook], Webhook]
_Done = tuple[Webhook, Event | None]
_Apply = Callable[[Transaction, Webhook, int], Awaitable[_Done]]


class Webhooks:
    def __init__(
        self,
        *,
        store: Store,
        guard: Guard,
        mailer: Mailer,
        clock: Clock,
        ids: Ids,
        entropy: Callable[[int], bytes],
        observer: Observer,
        tell: Callable[[], None],
        look_again: Callable[[], None],
    ) -> None:
        self._store = store
        self._guard = guard
        self._mailer = mailer
        self._clock = clock
        self._ids = ids
        self._entropy = entropy
        self._observer = observer
        self._tell = tell
        self._look_again = look_again
        self._testing = 0

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    async def list(self) -> Sequence[WebhookView]:
        counts = await self._store.count_deliveries()
        cursors = {outlet.name: outlet.cursor for outlet in await self._store.outlets()}
        return [
            WebhookView(
                webhook=webhook,
                cursor=cursors.get(webhook.outlet, 0),
                waiting=counts.get((webhook.name, DeliveryState.WAITING), 0),
                dead=counts.get((webhook.name, DeliveryState.DEAD), 0),
            )
            for webhook in await self._store.webhooks()
        ]

    async def get(self, name: str) -> WebhookView:
        found = next((view for view in await self.list() if view.webhook.name == name), None)
        if found is None:
            raise _no_such(name)
        return found

    async def deliveries(
        self, name: str, *, state: DeliveryState | None, before: bytes, limit: int
    ) -> Sequence[Delivery]:
        """The newest first. "-" are the callbacks of tasks."""
        if name == CALLBACKS:
            return await self._store.deliveries(None, state=state, before=before, limit=limit)
        if await self._store.webhook(name) is None:
            raise _no_such(name)
        return await self._store.deliveries(name, state=state, before=before, limit=limit)

    async def delivery(self, name: str, id_text: str) -> Delivery:
        try:
            found = await self._store.delivery(id_from_text(id_text))
        except InvalidRequest:
            found = None
        if found is None or (CALLBACKS if found.url else found.line) != name:
            raise NotFound(
                f"no delivery {id_text[:64]} of {name}",
                code="delivery_not_found",
                remedy="the oldest are forgotten; virtflow webhooks deliveries shows what is remembered",
            )
        return found

    # ── changing ──────────────────────────────────────────────────────────────────────────────────

    async def create(
        self,
        webhook: Webhook,
        *,
        secret: Secret | None,
        after: int | None,
        actor: str,
        receipt: Receipt[WebhookView] | None = None,
    ) -> WebhookView:
        """Told of events from now on, or of those after a number. The view shows its secret, this once."""
        await self._check_url(webhook.url)
        now_ms = self._clock.now_ms()
        secret = secret or self._new_secret()
        made = msgspec.structs.replace(webhook, secrets=(SigningSecret(secret),), created_ms=now_ms, updated_ms=now_ms)
        cursor = await self._place(after)
        view = WebhookView(webhook=made, cursor=cursor, secret=secret)
        async with self._store.transaction() as tx:
            await tx.add_webhook(made, most=WEBHOOKS_MAX)
            await tx.add_outlets(
                [
                    Outlet(
                        name=made.outlet, kind=KIND, cursor=cursor, enabled=made.is_enabled, created_ms=now_ms,
                        updated_ms=now_ms,
                    )
                ]
            )  # fmt: skip
            await _remember(tx, receipt, view, now_ms)
            await tx.append_events([webhook_event(EventType.WEBHOOK_CREATED, made, at_ms=now_ms, actor=actor)])
        self._changed()
        return view

    def new_name(self) -> str:
        """For a receiver that was given none."""
        return f"webhook-{self._entropy(4).hex()}"

    async def change(self, name: str, change: _Change, *, expected_version: int | None, actor: str) -> WebhookView:
        """What is said of it: its URL, its events, its description."""
        before = await self._store.webhook(name)
        if before is None:
            raise _no_such(name)
        if (url := change(before).url) != before.url:
            await self._check_url(url)

        async def apply(tx: Transaction, webhook: Webhook, now_ms: int) -> _Done:
            changed = await tx.change_webhook(msgspec.structs.replace(change(webhook), updated_ms=now_ms))
            return changed, webhook_event(EventType.WEBHOOK_CHANGED, changed, at_ms=now_ms, actor=actor)

        return await self._move(name, apply, expected_version=expected_version)

    async def rotate(
        self,
        name: str,
        *,
        secret: Secret | None,
        overlap_s: int,
        expected_version: int | None,
        actor: str,
        receipt: Receipt[WebhookView] | None = None,
    ) -> WebhookView:
        """A new secret; the one before signs too until the overlap ends. The view shows the new one, this once."""
        new = secret or self._new_secret()

        async def apply(tx: Transaction, webhook: Webhook, now_ms: int) -> _Done:
            until_ms = now_ms + overlap_s * 1000
            former = [SigningSecret(webhook.secrets[0].text, until_ms)] if overlap_s and webhook.secrets else []
            changed = await tx.change_webhook(
                msgspec.structs.replace(webhook, secrets=(SigningSecret(new), *former), updated_ms=now_ms)
            )
            return changed, webhook_event(EventType.WEBHOOK_ROTATED, changed, at_ms=now_ms, actor=actor)

        return await self._move(name, apply, expected_version=expected_version, receipt=receipt, secret=new)

    async def enable(
        self, name: str, *, expected_version: int | None, actor: str, receipt: Receipt[WebhookView] | None = None
    ) -> WebhookView:
        """It goes on where it stopped, and what waits is due at once."""

        async def apply(tx: Transaction, webhook: Webhook, now_ms: int) -> _Done:
            if webhook.is_enabled:  # said twice: nothing changes, nothing is told
                return webhook, None
            changed = await tx.change_webhook(_fresh(webhook, now_ms))
            await tx.enable_outlet(webhook.outlet, enabled=True, at_ms=now_ms)
            await tx.hasten_deliveries([name], at_ms=now_ms)
            return changed, webhook_event(EventType.WEBHOOK_ENABLED, changed, at_ms=now_ms, actor=actor)

        return await self._move(name, apply, expected_version=expected_version, receipt=receipt)

    async def disable(
        self, name: str, *, expected_version: int | None, actor: str, receipt: Receipt[WebhookView] | None = None
    ) -> WebhookView:
        """It is told of nothing any more; what waits, waits."""

        async def apply(tx: Transaction, webhook: Webhook, now_ms: int) -> _Done:
            if not webhook.is_enabled:
                return webhook, None
            return await switch_off(
                tx, webhook, code="operator", reason="an operator disabled it", at_ms=now_ms, actor=actor
            )

        return await self._move(name, apply, expected_version=expected_version, receipt=receipt)

    async def delete(self, name: str, *, expected_version: int | None, actor: str) -> None:
        """With its queue and its history."""
        now_ms = self._clock.now_ms()
        async with self._store.transaction() as tx:
            webhook = await tx.hold_webhook(name, expected_version=expected_version)
            await tx.delete_webhook(name)
            await tx.remove_outlet(webhook.outlet)
            last = msgspec.structs.replace(webhook, version=webhook.version + 1)
            await tx.append_events([webhook_event(EventType.WEBHOOK_DELETED, last, at_ms=now_ms, actor=actor)])
        self._changed()

    # ── telling again ─────────────────────────────────────────────────────────────────────────────

    async def replay(self, name: str, *, after: int, receipt: Receipt[WebhookView] | None = None) -> WebhookView:
        """All events after a number once more, as far as they are kept and it wants them."""
        after = await self._place(after)

        async def apply(tx: Transaction, webhook: Webhook, now_ms: int) -> _Done:
            await tx.place_outlet(webhook.outlet, cursor=after, at_ms=now_ms)
            await tx.give_webhook_work(name)
            return webhook, None

        return await self._move(name, apply, expected_version=None, receipt=receipt, cursor=after)

    async def redeliver(self, name: str, id_text: str, *, receipt: Receipt[Delivery] | None = None) -> Delivery:
        """One message as if it were new. One that waits is left as it is."""
        found = await self.delivery(name, id_text)
        now_ms = self._clock.now_ms()
        again = found
        if found.state is not DeliveryState.WAITING:
            again = msgspec.structs.replace(
                found, state=DeliveryState.WAITING, tries=0, next_try_ms=now_ms, since_ms=now_ms, ended_ms=None
            )
        async with self._store.transaction() as tx:
            if again is not found:
                await tx.deliver_again(found.id, at_ms=now_ms)
            if not found.url:
                await tx.give_webhook_work(name)
            await _remember(tx, receipt, again, now_ms)
        self._look_again()
        return again

    async def test(self, name: str, *, receipt: Receipt[Delivery] | None = None) -> Delivery:
        """Sends a message of its own, now and from here, also to a disabled one; returns how that went."""
        webhook = await self._store.webhook(name)
        if webhook is None:
            raise _no_such(name)
        if self._testing >= TESTS_MAX:
            raise Busy(f"{TESTS_MAX} tests are under way")
        self._testing += 1
        try:
            tested = await self._try_out(webhook)
        finally:
            self._testing -= 1
        async with self._store.transaction() as tx:
            await tx.hold_webhook(name)
            await tx.add_deliveries([tested])
            await _remember(tx, receipt, tested, self._clock.now_ms())
        return tested

    async def _try_out(self, webhook: Webhook) -> Delivery:
        now_ms, key = self._clock.now_ms(), self._ids.next()
        history_id = await self._store.history_id()
        message_id, subject = f"{history_id}-test-{key.hex()}", f"{KIND}/{webhook.name}"
        body = notice(
            TEST, {"webhook": webhook.name}, message_id=message_id, subject=subject, history_id=history_id,
            at_ms=now_ms,
        )  # fmt: skip
        post = Post(url=webhook.url, message_id=message_id, body=body, secrets=webhook.valid_secrets(now_ms))
        line = f"test of {webhook.name}"
        reply = await self._mailer.send(post, line=line)
        await self._mailer.forget(line)
        state = DeliveryState.DELIVERED if reply.is_delivered else DeliveryState.DEAD
        self._observer.observe_delivery(webhook.name, state.word, reply.duration_ms / 1000)
        return Delivery(
            id=key,
            line=webhook.name,
            seq=0,
            type=TEST,
            subject=subject,
            message_id=message_id,
            body=body,
            state=state,
            tries=0 if reply.is_delivered else 1,
            next_try_ms=now_ms,
            created_ms=now_ms,
            since_ms=now_ms,
            ended_ms=self._clock.now_ms(),
            status=reply.status,
            code=reply.code,
            duration_ms=reply.duration_ms,
        )

    # ── what they share ───────────────────────────────────────────────────────────────────────────

    async def _move(
        self,
        name: str,
        apply: _Apply,
        *,
        expected_version: int | None,
        receipt: Receipt[WebhookView] | None = None,
        secret: Secret | None = None,
        cursor: int | None = None,
    ) -> WebhookView:
        """One change of one receiver, with the answer to its Idempotency-Key."""
        before = await self.get(name)
        now_ms = self._clock.now_ms()
        async with self._store.transaction() as tx:
            webhook = await tx.hold_webhook(name, expected_version=expected_version)
            changed, event = await apply(tx, webhook, now_ms)
            view = msgspec.structs.replace(
                before, webhook=changed, secret=secret, cursor=before.cursor if cursor is None else cursor
            )
            await _remember(tx, receipt, view, now_ms)
            if event is not None:
                await tx.append_events([event])
        self._changed()
        return view

    def _changed(self) -> None:
        self._tell()
        self._look_again()

    def _new_secret(self) -> Secret:
        return Secret(secret_text(self._entropy(SECRET_BYTES_MIN)))

    async def _place(self, after: int | None) -> int:
        """A place in the log: the newest when nothing is said."""
        oldest, newest = await self._store.event_range()
        if after is None:
            return newest
        if after > newest:
            problem = FieldProblem("/after", f"is beyond the newest event, {newest}", f"at most {newest}")
            raise InvalidRequest(f"/after: {problem.detail}", remedy=problem.remedy, fields=[problem])
        if after < oldest - 1:
            raise Gone(f"events before {oldest} are no longer kept", remedy=f"say after: {oldest - 1} at least")
        return after

    async def _check_url(self, text: str) -> None:
        """What is certainly wrong is said at once. A name that nobody knows now may be known later."""
        try:
            async with asyncio.timeout(LOOK_UP_S_MAX):
                await self._guard.addresses(read_url(text))
        except Forbidden as error:
            raise forbidden(error, field="url") from error
        except (Unresolved, TimeoutError):
            pass


def _fresh(webhook: Webhook, now_ms: int) -> Webhook:
    """As if it had never failed."""
    return msgspec.structs.replace(
        webhook,
        state=check_webhook_move(webhook.state, WebhookState.ACTIVE),
        code="",
        reason="",
        failures=0,
        failing_since_ms=None,
        retry_ms=0,
        updated_ms=now_ms,
    )


def forbidden(error: Forbidden, *, field: str) -> InvalidRequest:
    problem = FieldProblem(f"/{field}", error.detail, error.remedy)
    return InvalidRequest(f"/{field}: {error.detail}", code="forbidden_address", remedy=error.remedy, fields=[problem])


async def _remember(tx: Transaction, receipt: Receipt[Any] | None, result: object, now_ms: int) -> None:
    if receipt is not None:
        await tx.remember_answers([receipt.answer(result, now_ms)])


def _no_such(name: str) -> NotFound:
    return NotFound(f"no webhook {name!r}", code="webhook_not_found", remedy="virtflow webhooks list shows them all")
