"""The courier of webhooks: a queue, a breaker and a few lanes for each receiver, so that a slow one delays nobody."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Protocol

import msgspec
import structlog

from virtflow.control.breaker import Breaker
from virtflow.control.ids import Ids
from virtflow.control.line import GONE, Line
from virtflow.control.settle import Settlements
from virtflow.control.spread import PAGE, Receiver, Spread
from virtflow.election import Term
from virtflow.events import KEPT, Mailer, Post, Reply
from virtflow.model.clock import Clock
from virtflow.model.errors import VirtflowError
from virtflow.model.limits import WEBHOOK_QUEUE_MAX
from virtflow.model.webhook import CALLBACKS, Delivery, DeliveryState, Webhook, WebhookHealth, WebhookState
from virtflow.store.contract import Store

log = structlog.get_logger(__name__)

#: receivers and the log are looked at this often, even if nobody says that something happened
POLL_S = 1.0
#: where something happens all the time it is looked at so often, and not at each commit
REST_S = 0.01
#: callbacks that another process sent again, and lines that found no place, are found within so long
RESCAN_S = 10.0
#: places to which callbacks go at a time; the rest waits in the database
CALLBACK_LINES_MAX = 1_000
LAST_WRITE_S_MAX = 2.0
FAILING = "failing"


class Observer(Protocol):
    def observe_delivery(self, webhook: str, outcome: str, seconds: float) -> None: ...


@dataclasses.dataclass(slots=True)
class _Serving:
    """A line and whoever works at it."""

    line: Line
    changed: asyncio.Event
    task: asyncio.Task[None] | None = None
    #: None: callbacks
    webhook: Webhook | None = None
    #: more waits in the database than the line holds
    has_more: bool = False


class Deliverer:
    name = "webhooks"

    def __init__(
        self,
        *,
        store: Store,
        mailer: Mailer,
        clock: Clock,
        ids: Ids,
        observer: Observer,
        chance: Callable[[], float],
        disable_after_s: float,
    ) -> None:
        self._store = store
        self._mailer = mailer
        self._clock = clock
        self._observer = observer
        self._chance = chance
        self._disable_after_s = disable_after_s
        self._spread = Spread(store=store, clock=clock, ids=ids)
        self._settlements = Settlements(store=store, clock=clock)
        self._serving: dict[str, _Serving] = {}
        self._news = asyncio.Event()
        self._looked_s = self._scanned_s = float("-inf")
        #: our term lasts: looked at when the first byte of a message is about to leave
        self._is_ours: Callable[[], bool] = lambda: True
        #: "ok", or what is wrong with us; what is wrong with a receiver stands with the receiver
        self.state = "ok"
        self._is_interrupted = False

    def knock(self) -> None:
        self._news.set()

    def look_again(self) -> None:
        """Receivers or their messages were changed beside the log."""
        self._looked_s = self._scanned_s = float("-inf")
        self._news.set()

    async def close(self) -> None:
        await self._mailer.close()

    async def run(self, term: Term) -> None:
        """Until cancelled: then what is known is written down, and what is under way is sent again by the next."""
        self._is_ours = term.is_valid
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._settlements.run())
                await self._look_after_all(group)
        finally:
            served = list(self._serving)
            self._serving.clear()
            for line in served:  # what was broken off has connections that nobody would close
                await self._mailer.forget(line)
            with contextlib.suppress(TimeoutError, VirtflowError):
                async with asyncio.timeout(LAST_WRITE_S_MAX):
                    await self._settlements.write_all()

    # ── who is there, and what is new ─────────────────────────────────────────────────────────────

    async def _look_after_all(self, group: asyncio.TaskGroup) -> None:
        is_loaded = False
        while True:
            self._news.clear()
            try:
                if not is_loaded:
                    await self._spread.load()
                    for serving in list(self._serving.values()):
                        await self._fill(serving)
                    is_loaded = True
                    self.look_again()
                more = await self._step(group)
            except VirtflowError as error:
                self._fail(error)
                more, is_loaded = False, False  # what of it happened, the rows know
            else:
                if self._is_interrupted:
                    log.info("webhooks.resumed")
                self._is_interrupted, self.state = False, self._settlements.state
            if not more:
                await asyncio.sleep(REST_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._news.wait()

    def _fail(self, error: VirtflowError) -> None:
        if not self._is_interrupted:  # one line for each change of state, not for each try
            log.warning("webhooks.interrupted", error=error.detail)
        self._is_interrupted, self.state = True, error.detail

    async def _step(self, group: asyncio.TaskGroup) -> bool:
        now_s = self._clock.monotonic_s()
        is_thorough = now_s - self._looked_s >= POLL_S
        if is_thorough:
            self._looked_s = now_s
            await self._look_at_webhooks(group)
        if now_s - self._scanned_s >= RESCAN_S:
            self._scanned_s = now_s
            await self._look_for_callbacks(group)
        receivers = [
            Receiver(serving.webhook, serving.line)
            for serving in self._serving.values()
            if serving.webhook is not None and not serving.has_more
        ]
        more = await self._spread.forward(receivers, into_any_room=is_thorough)
        called = await self._spread.forward_callbacks(to_write=is_thorough)
        for delivery in called or ():
            self._call(group, delivery)
        overtaken, self._spread.overtaken = self._spread.overtaken, set()
        for serving in list(self._serving.values()):
            serving.changed.set()
            if serving.line.name in overtaken or (serving.has_more and len(serving.line) < WEBHOOK_QUEUE_MAX // 2):
                await self._fill(serving)
            elif serving.webhook is None and not len(serving.line):
                await self._dismiss(serving)
        return more or called is not None

    async def _look_at_webhooks(self, group: asyncio.TaskGroup) -> None:
        webhooks = {webhook.name: webhook for webhook in await self._store.webhooks() if webhook.is_enabled}
        for serving in [one for one in self._serving.values() if one.webhook and one.line.name not in webhooks]:
            await self._dismiss(serving)
        changed = []
        for name, webhook in webhooks.items():
            known = self._serving.get(name)
            if known is not None and known.line.is_off and not self._settlements.is_switching_off(name):
                await self._dismiss(known)  # somebody has enabled it since
                known = None
            if known is None:
                changed.append(self._serve(group, name, webhook))
            elif known.webhook is not None and known.webhook.work != webhook.work:
                if webhook.url != known.webhook.url:
                    await self._mailer.forget(name)
                known.webhook = webhook
                changed.append(known)
        if changed:
            await self._spread.load()  # somebody wants to hear something again
        for serving in changed:
            await self._fill(serving)

    async def _look_for_callbacks(self, group: asyncio.TaskGroup) -> None:
        for name in await self._store.waiting_lines():
            if "://" in name and self._has_place_for(name):
                await self._fill(self._serving.get(name) or self._serve(group, name, None))

    def _call(self, group: asyncio.TaskGroup, delivery: Delivery) -> None:
        serving = self._serving.get(delivery.line)
        if serving is None and self._has_place_for(delivery.line):
            serving = self._serve(group, delivery.line, None)
        if serving is not None and not serving.has_more and serving.line.room > 0:
            serving.line.add([delivery])
        elif serving is not None:
            serving.has_more = True

    def _has_place_for(self, line: str) -> bool:
        return line in self._serving or sum(one.webhook is None for one in self._serving.values()) < CALLBACK_LINES_MAX

    async def _fill(self, serving: _Serving) -> None:
        """With what waits in the database; what was settled just now is not there any more, though its row may be."""
        rows = await self._store.waiting_deliveries(serving.line.name, limit=WEBHOOK_QUEUE_MAX)
        serving.has_more = len(rows) == WEBHOOK_QUEUE_MAX
        serving.line.add(rows)
        serving.changed.set()

    def _serve(self, group: asyncio.TaskGroup, name: str, webhook: Webhook | None) -> _Serving:
        breaker = Breaker(chance=self._chance)
        if webhook is not None:
            breaker = Breaker(
                chance=self._chance,
                failures=webhook.failures,
                failing_since_ms=webhook.failing_since_ms,
                retry_ms=webhook.retry_ms,
            )
        serving = _Serving(Line(name, breaker=breaker, chance=self._chance), asyncio.Event(), webhook=webhook)
        self._serving[name] = serving
        serving.task = group.create_task(self._send_all(serving))
        return serving

    async def _dismiss(self, serving: _Serving) -> None:
        serving.line.is_off = True
        del self._serving[serving.line.name]
        if serving.task is not None:
            serving.task.cancel()
        await self._mailer.forget(serving.line.name)

    # ── sending ───────────────────────────────────────────────────────────────────────────────────

    async def _send_all(self, serving: _Serving) -> None:
        """The lanes of one line."""
        async with asyncio.TaskGroup() as lanes:
            while True:
                serving.changed.clear()
                await self._settlements.wait_for_room()
                while (delivery := serving.line.take(self._clock.now_ms())) is not None:
                    lanes.create_task(self._send(serving, delivery))
                next_ms = serving.line.next_ms()
                wait_s = None if next_ms is None else max(0.001, (next_ms - self._clock.now_ms()) / 1000)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await serving.changed.wait()

    async def _send(self, serving: _Serving, delivery: Delivery) -> None:
        post = self._post(serving.webhook, delivery)
        reply = await self._mailer.send(post, line=serving.line.name, may_leave=self._is_ours)
        if reply.code == KEPT:
            return  # whoever has the office now sends it
        was_open = serving.line.breaker.is_open
        settled = serving.line.settle(delivery, reply, self._clock.now_ms())
        self._observer.observe_delivery(_label(serving), _outcome(settled), reply.duration_ms / 1000)
        self._settlements.put(settled)
        if was_open and reply.is_delivered:
            self._settlements.hasten(serving.line.name)
        self._take_note(serving, reply, was_open=was_open)
        serving.changed.set()
        if serving.line.room == PAGE:  # there is room again for what stands in the log
            self._news.set()

    def _post(self, webhook: Webhook | None, delivery: Delivery) -> Post:
        if webhook is None:
            return Post(
                url=delivery.url,
                message_id=delivery.message_id,
                body=delivery.body,
                secrets=(delivery.secret,) if delivery.secret else (),
            )
        return Post(
            url=webhook.url,
            message_id=delivery.message_id,
            body=delivery.body,
            secrets=webhook.valid_secrets(self._clock.now_ms()),
        )

    def _take_note(self, serving: _Serving, reply: Reply, *, was_open: bool) -> None:
        """What the end of a try says about the receiver."""
        line, webhook = serving.line, serving.webhook
        breaker = line.breaker
        if breaker.is_open and not was_open:  # one line for each change of state, not for each try
            log.warning("webhook.failing", webhook=line.name, error=reply.text)
        elif was_open and not breaker.is_open:
            log.info("webhook.recovered", webhook=line.name)
        if webhook is None:
            return
        if reply.code == GONE:
            self._switch_off(line, code=GONE, reason=reply.text)
        elif not reply.is_delivered and breaker.failing_s(self._clock.now_ms()) >= self._disable_after_s:
            self._switch_off(line, code=FAILING, reason=f"it has failed for too long; the last time: {reply.text}")
        elif breaker.failures or was_open or webhook.failures:
            self._settlements.mark(_health(line, reply))
            serving.webhook = msgspec.structs.replace(webhook, failures=breaker.failures)

    def _switch_off(self, line: Line, *, code: str, reason: str) -> None:
        line.is_off = True
        log.warning("webhook.disabled", webhook=line.name, code=code, reason=reason)
        self._settlements.switch_off(line.name, code=code, reason=reason)


def _health(line: Line, reply: Reply) -> WebhookHealth:
    breaker = line.breaker
    return WebhookHealth(
        name=line.name,
        state=WebhookState.FAILING if breaker.is_open else WebhookState.ACTIVE,
        code=reply.code if breaker.is_open else "",
        reason=reply.text if breaker.is_open else "",
        failures=breaker.failures,
        failing_since_ms=breaker.failing_since_ms,
        retry_ms=breaker.retry_ms,
    )


def _label(serving: _Serving) -> str:
    return CALLBACKS if serving.webhook is None else serving.line.name


def _outcome(settled: Delivery) -> str:
    return "failed" if settled.state is DeliveryState.WAITING else settled.state.word
