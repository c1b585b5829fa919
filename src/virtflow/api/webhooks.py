"""Webhooks: who is told of events, what became of each message, and telling it again."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.idempotency import answer
from virtflow.api.operation import Call, Noun, nothing, ok
from virtflow.api.pages import Paged, bad_cursor, cursor_key, cut
from virtflow.api.query import NoQuery, given
from virtflow.api.rules import EventName, Name, SigningSecretText, Text, WebUrl
from virtflow.api.versions import etag
from virtflow.control.orders import Rendered
from virtflow.model.errors import NotFound
from virtflow.model.limits import WEBHOOK_EVENTS_MAX, WEBHOOK_OVERLAP_S_MAX
from virtflow.model.names import id_to_text, is_name
from virtflow.model.secret import Secret, without_secrets
from virtflow.model.times import time_or_none, time_text
from virtflow.model.views import WebhookView
from virtflow.model.webhook import CALLBACKS, Delivery, DeliveryState, Webhook, WebhookState

webhooks = Noun("webhooks")

OVERLAP_S = 24 * 3600
_ID_BYTES = 16
SEQ_MAX = 2**53 - 1
DeliveryWord = Literal["waiting", "delivered", "dead"]
Events = Annotated[list[EventName], Meta(max_length=WEBHOOK_EVENTS_MAX)]
Place = Annotated[int, Meta(ge=0, le=SEQ_MAX)]


class WebhookIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who shall be told of what."""

    url: Annotated[WebUrl, Meta(description="where messages are sent by POST")]
    name: Annotated[Name, Meta(description="default: webhook- and some letters")] | UnsetType = UNSET
    description: Annotated[Text, Meta(description="for people")] | UnsetType = UNSET
    events: (
        Annotated[Events, Meta(description='types such as task.failed, or "task." for all of a kind; none: everything')]
        | UnsetType
    ) = UNSET
    enabled: Annotated[bool, Meta(description="default: true")] | UnsetType = UNSET
    secret: Annotated[SigningSecretText, Meta(description="default: one is drawn")] | UnsetType = UNSET
    after: (
        Annotated[Place, Meta(description="it is told of events with greater numbers; default: of what comes next")]
        | UnsetType
    ) = UNSET


class WebhookPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A JSON merge patch: what is not named stays, null takes away."""

    url: WebUrl | UnsetType = UNSET
    description: Text | UnsetType | None = UNSET
    events: Events | UnsetType | None = UNSET


class RotationIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the secret changes."""

    overlap_s: (
        Annotated[
            int,
            Meta(ge=0, le=WEBHOOK_OVERLAP_S_MAX, description="so long the former one signs too; default: a day"),
        ]
        | UnsetType
    ) = UNSET
    secret: Annotated[SigningSecretText, Meta(description="default: one is drawn")] | UnsetType = UNSET


class ReplayIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where it is told again."""

    after: Annotated[Place, Meta(description="events with greater numbers are sent once more")]


class WebhookOut(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver of webhooks. Its secret is shown when it is made, and when it is rotated."""

    name: str
    #: values of parameters that sound like a secret are masked
    url: str
    description: str
    events: list[str]
    enabled: bool
    state: Literal["active", "failing", "disabled"]
    #: why it is failing or disabled
    code: str
    reason: str
    failing_since: str | None
    #: up to this event everything was sent, or waits in its queue
    cursor: int
    waiting: int
    dead: int
    #: the former secret signs too until then
    overlap_until: str | None
    version: int
    created_at: str
    updated_at: str


class WebhookMade(WebhookOut, frozen=True, kw_only=True):
    """A receiver with its new secret, which is not shown again."""

    secret: str


class WebhookPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of receivers, in name order."""

    items: list[WebhookOut]
    next: str | None


class DeliveryOut(msgspec.Struct, frozen=True, kw_only=True):
    """One message, and how its last try ended."""

    id: str
    message_id: str
    #: 0: a test
    seq: int
    type: str
    subject: str
    state: DeliveryWord
    #: that failed
    tries: int
    #: HTTP's of the last try; 0: there was none
    status: int
    #: what went wrong at the last try; empty: nothing
    code: str
    duration_ms: int
    created_at: str
    next_try_at: str | None
    ended_at: str | None


class DeliveryPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of messages, the newest first."""

    items: list[DeliveryOut]
    next: str | None


class DeliveryQuery(Paged, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which messages."""

    state: DeliveryWord | UnsetType = UNSET


# ── what is answered ──────────────────────────────────────────────────────────────────────────────


def webhook_out(view: WebhookView) -> WebhookOut:
    webhook = view.webhook
    former = webhook.secrets[1].until_ms if len(webhook.secrets) > 1 else None
    fields = {
        "name": webhook.name,
        "url": without_secrets(webhook.url),
        "description": webhook.description,
        "events": list(webhook.events),
        "enabled": webhook.is_enabled,
        "state": webhook.state.word,
        "code": webhook.code,
        "reason": webhook.reason,
        "failing_since": time_or_none(webhook.failing_since_ms),
        "cursor": view.cursor,
        "waiting": view.waiting,
        "dead": view.dead,
        "overlap_until": time_or_none(former),
        "version": webhook.version,
        "created_at": time_text(webhook.created_ms),
        "updated_at": time_text(webhook.updated_ms),
    }
    if view.secret is not None:
        return WebhookMade(**fields, secret=view.secret.reveal())  # type: ignore[arg-type]
    return WebhookOut(**fields)  # type: ignore[arg-type]


def delivery_out(delivery: Delivery) -> DeliveryOut:
    waits = delivery.state is DeliveryState.WAITING
    return DeliveryOut(
        id=id_to_text(delivery.id),
        message_id=delivery.message_id,
        seq=delivery.seq,
        type=delivery.type,
        subject=delivery.subject,
        state=delivery.state.word,  # type: ignore[arg-type]
        tries=delivery.tries,
        status=delivery.status,
        code=delivery.code,
        duration_ms=delivery.duration_ms,
        created_at=time_text(delivery.created_ms),
        next_try_at=time_or_none(delivery.next_try_ms) if waits else None,
        ended_at=time_or_none(delivery.ended_ms),
    )


def _shown(view: WebhookView) -> Rendered:
    return ok(webhook_out(view), etag(view.webhook.version))


def _made(view: WebhookView) -> Rendered:
    location = ("location", f"/v1/webhooks/{view.webhook.name}")
    return ok(webhook_out(view), etag(view.webhook.version), location, status=201)


def _delivery_shown(delivery: Delivery) -> Rendered:
    return ok(delivery_out(delivery))


# ── the calls ─────────────────────────────────────────────────────────────────────────────────────

EXAMPLE = {"name": "ops", "url": "https://hooks.example.net/virtflow", "events": ["task.failed", "host."]}
_MERGE_PATCH = ("application/json", "application/merge-patch+json")


@webhooks.post("/v1/webhooks", body=WebhookIn, answers={201: WebhookMade}, refusals=(409, 410), example=EXAMPLE)
async def create_webhook(call: Call[WebhookIn, NoQuery]) -> Rendered:
    """Have events sent somewhere. The answer shows the secret that signs them, this once."""
    said, receipt = call.body, call.receipt(_made)
    webhook = Webhook(
        name=call.house.webhooks.new_name() if said.name is UNSET else said.name,
        url=said.url,
        description=said.description or "",
        events=tuple(dict.fromkeys(said.events or ())),
        state=WebhookState.DISABLED if said.enabled is False else WebhookState.ACTIVE,
    )
    view = await call.house.webhooks.create(
        webhook, secret=_secret(said.secret), after=given(said.after), actor=call.actor, receipt=receipt
    )
    return answer(receipt, _made, view)


@webhooks.get("/v1/webhooks", query=Paged, answers={200: WebhookPage})
async def list_webhooks(call: Call[None, Paged]) -> Rendered:
    """List webhooks."""
    after = cursor_key("w", call.query).decode("latin-1")
    if after and not is_name(after):
        raise bad_cursor()
    rest = [view for view in await call.house.webhooks.list() if view.webhook.name > after]
    page, following = cut(rest, call.query.count, "w", lambda view: view.webhook.name.encode())
    return ok(WebhookPage(items=[webhook_out(view) for view in page], next=following))


@webhooks.get("/v1/webhooks/{name}", answers={200: WebhookOut})
async def get_webhook(call: Call[None, NoQuery]) -> Rendered:
    """Read a webhook."""
    return _shown(await call.house.webhooks.get(_name(call)))


@webhooks.patch(
    "/v1/webhooks/{name}",
    body=WebhookPatch,
    types=_MERGE_PATCH,
    answers={200: WebhookOut},
    example={"events": ["task."]},
)
async def change_webhook(call: Call[WebhookPatch, NoQuery]) -> Rendered:
    """Change where a webhook goes, or of what it is told."""
    patch = call.body

    def change(webhook: Webhook) -> Webhook:
        said: dict[str, object] = {}
        if patch.url is not UNSET:
            said["url"] = patch.url
        if patch.description is not UNSET:
            said["description"] = patch.description or ""
        if patch.events is not UNSET:
            said["events"] = tuple(dict.fromkeys(patch.events or ()))
        return msgspec.structs.replace(webhook, **said)

    version = await call.version()
    return _shown(await call.house.webhooks.change(_name(call), change, expected_version=version, actor=call.actor))


@webhooks.delete("/v1/webhooks/{name}", answers={204: None})
async def delete_webhook(call: Call[None, NoQuery]) -> Rendered:
    """Forget a webhook, its queue and its history."""
    await call.house.webhooks.delete(_name(call), expected_version=await call.version(), actor=call.actor)
    return nothing()


@webhooks.post("/v1/webhooks/{name}/enable", answers={200: WebhookOut}, has_version=True)
async def enable_webhook(call: Call[None, NoQuery]) -> Rendered:
    """Send again, from where it stopped."""
    receipt = call.receipt(_shown)
    view = await call.house.webhooks.enable(
        _name(call), expected_version=await call.version(), actor=call.actor, receipt=receipt
    )
    return answer(receipt, _shown, view)


@webhooks.post("/v1/webhooks/{name}/disable", answers={200: WebhookOut}, has_version=True)
async def disable_webhook(call: Call[None, NoQuery]) -> Rendered:
    """Send nothing any more. Events are not kept for its sake."""
    receipt = call.receipt(_shown)
    view = await call.house.webhooks.disable(
        _name(call), expected_version=await call.version(), actor=call.actor, receipt=receipt
    )
    return answer(receipt, _shown, view)


@webhooks.post(
    "/v1/webhooks/{name}/rotate",
    body=RotationIn,
    answers={200: WebhookMade},
    has_version=True,
    example={"overlap_s": 3600},
)
async def rotate_webhook(call: Call[RotationIn, NoQuery]) -> Rendered:
    """Sign with a new secret, and with the former one too until the overlap ends."""
    said, receipt = call.body, call.receipt(_shown)
    view = await call.house.webhooks.rotate(
        _name(call),
        secret=_secret(said.secret),
        overlap_s=OVERLAP_S if said.overlap_s is UNSET else said.overlap_s,
        expected_version=await call.version(),
        actor=call.actor,
        receipt=receipt,
    )
    return answer(receipt, _shown, view)


@webhooks.post("/v1/webhooks/{name}/test", answers={200: DeliveryOut})
async def test_webhook(call: Call[None, NoQuery]) -> Rendered:
    """Send a message of its own now, and answer how that went. A disabled one can be tested too."""
    receipt = call.receipt(_delivery_shown)
    return answer(receipt, _delivery_shown, await call.house.webhooks.test(_name(call), receipt=receipt))


@webhooks.post(
    "/v1/webhooks/{name}/replay", body=ReplayIn, answers={200: WebhookOut}, refusals=(410,), example={"after": 0}
)
async def replay_webhook(call: Call[ReplayIn, NoQuery]) -> Rendered:
    """Send events once more, from a number on."""
    receipt = call.receipt(_shown)
    view = await call.house.webhooks.replay(_name(call), after=call.body.after, receipt=receipt)
    return answer(receipt, _shown, view)


@webhooks.get("/v1/webhooks/{name}/deliveries", query=DeliveryQuery, answers={200: DeliveryPage})
async def list_deliveries(call: Call[None, DeliveryQuery]) -> Rendered:
    """List messages of a webhook, the newest first. The name "-" stands for the callbacks of tasks."""
    query = call.query
    before = cursor_key("d", query)
    if before and len(before) != _ID_BYTES:
        raise bad_cursor()
    state = DeliveryState[query.state.upper()] if query.state else None
    rows = await call.house.webhooks.deliveries(_line(call), state=state, before=before, limit=query.count + 1)
    page, following = cut(rows, query.count, "d", lambda delivery: delivery.id)
    return ok(DeliveryPage(items=[delivery_out(delivery) for delivery in page], next=following))


@webhooks.get("/v1/webhooks/{name}/deliveries/{delivery_id}", answers={200: DeliveryOut})
async def get_delivery(call: Call[None, NoQuery]) -> Rendered:
    """Read what became of one message."""
    return _delivery_shown(await call.house.webhooks.delivery(_line(call), call.path["delivery_id"]))


@webhooks.post("/v1/webhooks/{name}/deliveries/{delivery_id}/redeliver", answers={200: DeliveryOut})
async def redeliver(call: Call[None, NoQuery]) -> Rendered:
    """Send one message once more, as if it were new."""
    receipt = call.receipt(_delivery_shown)
    again = await call.house.webhooks.redeliver(_line(call), call.path["delivery_id"], receipt=receipt)
    return answer(receipt, _delivery_shown, again)


_Named = Call[None, NoQuery] | Call[WebhookPatch, NoQuery] | Call[RotationIn, NoQuery] | Call[ReplayIn, NoQuery]


def _name(call: _Named | Call[None, DeliveryQuery]) -> str:
    name = call.path["name"]
    if not is_name(name):
        raise NotFound("no webhook is called that", code="webhook_not_found", remedy="name it by its name")
    return name


def _line(call: Call[None, NoQuery] | Call[None, DeliveryQuery]) -> str:
    return CALLBACKS if call.path["name"] == CALLBACKS else _name(call)


def _secret(text: str | UnsetType) -> Secret | None:
    return None if text is UNSET else Secret(text)
