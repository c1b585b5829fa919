"""Writes down what became of messages: whatever came in while one transaction was under way shares the next."""

import asyncio
import collections

import msgspec
import structlog

from virtflow.model.clock import Clock
from virtflow.model.errors import NotFound, VirtflowError
from virtflow.model.event import Event, EventType
from virtflow.model.limits import WEBHOOK_HISTORY_MAX
from virtflow.model.webhook import (
    KIND,
    Delivery,
    DeliveryState,
    Webhook,
    WebhookHealth,
    WebhookState,
    check_webhook_move,
)
from virtflow.store.contract import Store, Transaction

log = structlog.get_logger(__name__)

#: more results than that in memory, and nothing further is sent: a crash would forget them, and send all of it again
UNWRITTEN_MAX = 2_000
AT_ONCE_MAX = 500
RETRY_S, RETRY_S_MAX = 0.1, 5.0
#: the history of a line is cut after so many results
CUT_EVERY = 200


class Settlements:
    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._settled: collections.deque[Delivery] = collections.deque()
        self._hastened: set[str] = set()
        self._health: dict[str, WebhookHealth] = {}
        self._off: dict[str, tuple[str, str]] = {}
        #: results by line since its history was cut; the callbacks share the line ""
        self._since_cut: collections.Counter[str] = collections.Counter()
        #: "ok", or what is wrong
        self.state = "ok"

    def put(self, delivery: Delivery) -> None:
        self._settled.append(delivery)
        self._since_cut["" if delivery.url else delivery.line] += 1
        if len(self._settled) >= UNWRITTEN_MAX:
            self._room.clear()
        self._news.set()

    def hasten(self, line: str) -> None:
        self._hastened.add(line)

    def mark(self, health: WebhookHealth) -> None:
        self._health[health.name] = health

    def switch_off(self, name: str, *, code: str, reason: str) -> None:
        self._off[name] = (code, reason)
        self._news.set()

    def is_switching_off(self, name: str) -> bool:
        """Not written down yet."""
        return name in self._off

    async def wait_for_room(self) -> None:
        await self._room.wait()

    async def run(self) -> None:
        """Until cancelled. The database may come and go."""
        failures = 0
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.write_all()
            except VirtflowError as error:
                if self.state == "ok":  # one line for each change of state, not for each try
                    log.warning("webhooks.not_recorded", error=error.detail)
                self.state, failures = f"results cannot be written: {error.detail}", failures + 1
                await asyncio.sleep(min(RETRY_S_MAX, RETRY_S * 2 ** min(failures, 10)))
                self._news.set()
            else:
                if self.state != "ok":
                    log.info("webhooks.recorded")
                self.state, failures = "ok", 0

    async def write_all(self) -> None:
        while self._settled or self._off:
            await self._write_some()

    async def _write_some(self) -> None:
        """What is written is forgotten afterwards only: written twice, it says the same."""
        settled = [delivery for delivery, _ in zip(self._settled, range(AT_ONCE_MAX), strict=False)]
        hastened, health, off = set(self._hastened), dict(self._health), dict(self._off)
        cut = [line for line, results in self._since_cut.items() if results >= CUT_EVERY]
        async with self._store.transaction() as tx:
            await tx.settle_deliveries(settled)
            await tx.hasten_deliveries(sorted(hastened), at_ms=self._clock.now_ms())
            await tx.mark_webhooks(list(health.values()))
            for line in cut:
                await self._cut(tx, line)
            events = [await self._switch_off(tx, name, *why) for name, why in off.items()]
            if said := [event for event in events if event is not None]:
                await tx.append_events(said)
        for _ in settled:
            self._settled.popleft()
        self._hastened -= hastened
        self._health = {name: one for name, one in self._health.items() if one is not health.get(name)}
        self._off = {name: why for name, why in self._off.items() if name not in off}
        for line in cut:
            del self._since_cut[line]
        if len(self._settled) < UNWRITTEN_MAX:
            self._room.set()

    async def _cut(self, tx: Transaction, line: str) -> None:
        for state in (DeliveryState.DELIVERED, DeliveryState.DEAD):
            if line:
                await tx.forget_deliveries(line, state, keep=WEBHOOK_HISTORY_MAX)
            else:
                await tx.forget_callbacks(state, keep=WEBHOOK_HISTORY_MAX)

    async def _switch_off(self, tx: Transaction, name: str, code: str, reason: str) -> Event | None:
        """None: somebody else did, or deleted it."""
        try:
            webhook = await tx.hold_webhook(name)
        except NotFound:
            return None
        if not webhook.is_enabled:
            return None
        _, event = await switch_off(tx, webhook, code=code, reason=reason, at_ms=self._clock.now_ms(), actor="")
        return event


async def switch_off(
    tx: Transaction, webhook: Webhook, *, code: str, reason: str, at_ms: int, actor: str
) -> tuple[Webhook, Event]:
    """One that is held is told of nothing any more, and no event is kept for its sake. The event is to be appended."""
    changed = await tx.change_webhook(
        msgspec.structs.replace(
            webhook,
            state=check_webhook_move(webhook.state, WebhookState.DISABLED),
            code=code,
            reason=reason,
            updated_ms=at_ms,
        )
    )
    await tx.enable_outlet(webhook.outlet, enabled=False, at_ms=at_ms)
    return changed, webhook_event(EventType.WEBHOOK_DISABLED, changed, at_ms=at_ms, actor=actor, code=code, text=reason)


def webhook_event(
    kind: EventType, webhook: Webhook, *, at_ms: int, actor: str, code: str = "", text: str = ""
) -> Event:
    """Says nothing of its URL, which may hold a secret."""
    return Event(
        type=kind,
        kind=KIND,
        id=webhook.name,
        version=webhook.version,
        at_ms=at_ms,
        actor=actor,
        code=code,
        text=text,
        now=webhook.state.word,
    )
