"""Receivers of webhooks: where events go, what each was told, and what it still must be."""

import base64
import binascii
import enum
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from virtflow.model.errors import Conflict
from virtflow.model.event import Event
from virtflow.model.secret import Secret

KIND = "webhook"
#: in the place of a name: the receivers of single tasks
CALLBACKS = "-"
CALLBACK_OUTLET = "callback"

SECRET_PREFIX = "whsec_"  # noqa: S105  # what every secret of the standard begins with
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
SECRET_RULE = f"{SECRET_PREFIX} and {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64"


class WebhookState(enum.IntEnum):
    """Stored as these numbers: add at the end, never renumber."""

    ACTIVE = 0
    FAILING = 1
    DISABLED = 2

    @property
    def word(self) -> str:
        return self.name.lower()


NEXT: dict[WebhookState, frozenset[WebhookState]] = {
    WebhookState.ACTIVE: frozenset({WebhookState.FAILING, WebhookState.DISABLED}),
    WebhookState.FAILING: frozenset({WebhookState.ACTIVE, WebhookState.DISABLED}),
    WebhookState.DISABLED: frozenset({WebhookState.ACTIVE}),
}


class DeliveryState(enum.IntEnum):
    """Stored as these numbers: add at the end, never renumber."""

    WAITING = 0
    DELIVERED = 1
    DEAD = 2

    @property
    def word(self) -> str:
        return self.name.lower()


DELIVERY_NEXT: dict[DeliveryState, frozenset[DeliveryState]] = {
    DeliveryState.WAITING: frozenset({DeliveryState.DELIVERED, DeliveryState.DEAD}),
    DeliveryState.DELIVERED: frozenset({DeliveryState.WAITING}),
    DeliveryState.DEAD: frozenset({DeliveryState.WAITING}),
}


S = TypeVar("S", WebhookState, DeliveryState)


def diagram(table: Mapping[S, frozenset[S]]) -> str:
    """One of the tables as a Mermaid diagram, for docs/."""
    lines: list[str] = ["```mermaid", "stateDiagram-v2", f"    [*] --> {min(table).word}"]
    for state, following in sorted(table.items()):
        lines += [f"    {state.word} --> {one.word}" for one in sorted(following)]
    return "\n".join([*lines, "```", ""])


def check_webhook_move(current: WebhookState, following: WebhookState) -> WebhookState:
    """The only judge of moves: returns the new state, or refuses and changes nothing."""
    if following not in NEXT[current]:
        raise Conflict(f"a webhook that is {current.word} cannot become {following.word}", code="illegal_transition")
    return following


class SigningSecret(msgspec.Struct, frozen=True):
    """One of a receiver's secrets, as `whsec_…`; `until_ms` ends it when another has taken its place."""

    text: Secret
    until_ms: int | None = None

    def is_valid(self, now_ms: int) -> bool:
        return self.until_ms is None or now_ms < self.until_ms


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """One receiver. How far it was told stands in its outlet."""

    name: str
    url: str
    description: str = ""
    #: exact types or prefixes ending in '.': "task."; none: everything
    events: tuple[str, ...] = ()
    #: the newest first
    secrets: tuple[SigningSecret, ...] = ()
    state: WebhookState = WebhookState.ACTIVE
    #: why it is disabled or failing
    code: str = ""
    reason: str = ""
    #: tries in a row that failed
    failures: int = 0
    failing_since_ms: int | None = None
    #: nothing is sent before then
    retry_ms: int = 0
    version: int = 1
    #: raised whenever somebody gave its deliverer something to do beside the log
    work: int = 0
    created_ms: int = 0
    updated_ms: int = 0

    @property
    def outlet(self) -> str:
        return outlet_name(self.name)

    @property
    def is_enabled(self) -> bool:
        return self.state is not WebhookState.DISABLED

    def valid_secrets(self, now_ms: int) -> tuple[Secret, ...]:
        return tuple(secret.text for secret in self.secrets if secret.is_valid(now_ms))

    def wants(self, event: Event) -> bool:
        """A receiver is not told about itself: what became of a message would be the next message."""
        if event.kind == KIND and event.id == self.name:
            return False
        name = event.type.value
        return not self.events or any(
            name.startswith(wanted) if wanted.endswith(".") else name == wanted for wanted in self.events
        )


def outlet_name(name: str) -> str:
    return f"{KIND}/{name}"


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One message for one receiver."""

    #: sorts by time
    id: bytes
    #: whose queue it stands in: a receiver's name, or for the callback of a task the origin of its URL
    line: str
    #: the number of the event; 0 for a test
    seq: int
    type: str
    #: what it is about: messages about one thing stay in order
    subject: str
    #: the same at every try
    message_id: str
    body: bytes
    state: DeliveryState = DeliveryState.WAITING
    #: tries that failed
    tries: int = 0
    next_try_ms: int = 0
    created_ms: int = 0
    #: since when it is tried: at first its creation, later when it was sent again
    since_ms: int = 0
    ended_ms: int | None = None
    #: of the last try: HTTP's status (0: there was none), what went wrong as a word, how long it took
    status: int = 0
    code: str = ""
    duration_ms: int = 0
    #: of the callback of a task; a receiver's own stand with the receiver
    url: str = ""
    secret: Secret = Secret("")


class Callback(msgspec.Struct, frozen=True):
    """Who wants to hear of the end of one task."""

    url: str
    secret: Secret = Secret("")


class TaskCallback(msgspec.Struct, frozen=True):
    task_id: bytes
    callback: Callback


class WebhookHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What became known of a receiver by sending to it."""

    name: str
    state: WebhookState
    code: str
    reason: str
    failures: int
    failing_since_ms: int | None
    retry_ms: int


def secret_key(text: str) -> bytes:
    """The bytes behind `whsec_…`. ValueError says in words what is wrong."""
    try:
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(SECRET_PREFIX) or not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise ValueError(f"must be {SECRET_RULE}")
    return key


def secret_text(key: bytes) -> str:
    return SECRET_PREFIX + base64.b64encode(key).decode()
