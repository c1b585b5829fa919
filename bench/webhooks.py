"""Events on their way to receivers of webhooks: how many a second, and what a slow receiver costs the others.

Receivers live in the same process and verify nothing, so that sending is what is measured.
"""

import asyncio
import contextlib
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from bench.http import database_in
from virtflow.config import Config, load_config
from virtflow.engine import strategies
from virtflow.main import Service, build
from virtflow.model.event import Event, EventType
from virtflow.model.webhook import Webhook
from virtflow.testing.receiver import Behaviour, Message, Receiver, receiver

HEALTHY = 4
#: one event after the other at this distance, to see how long each takes
STEP_S = 0.02
SLOW_S = 5.0
WITHIN_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """One database, with or without a slow receiver beside the healthy ones."""

    database: str
    with_slow: bool
    receivers: int
    deliveries: int
    seconds: float
    #: from the commit of an event to its arrival at a healthy receiver
    delay_s_median: float
    delay_s_p99: float
    #: events that a healthy receiver was not told of
    lost: int

    @property
    def deliveries_per_s(self) -> float:
        return self.deliveries / self.seconds


def measure(folder: Path, *, database: str, with_slow: bool, events: int, singles: int) -> Delivered:
    folder.mkdir()
    folder.chmod(0o755)
    with database_in(database, folder) as url:
        return asyncio.run(_measure(url, database, with_slow=with_slow, events=events, singles=singles))


async def _measure(url: str, database: str, *, with_slow: bool, events: int, singles: int) -> Delivered:
    arrived: list[tuple[int, float]] = []

    def hear(message: Message) -> None:
        arrived.append((message.event["data"]["seq"], time.perf_counter()))

    service = build(_config(url))
    async with contextlib.AsyncExitStack() as stack:
        hooks = [await stack.enter_async_context(receiver(hear=hear)) for _ in range(HEALTHY)]
        slow = await stack.enter_async_context(receiver(behaviour=Behaviour.SLOW, delay_s=SLOW_S))
        await stack.enter_async_context(service.running())
        for number, hook in enumerate([*hooks, slow] if with_slow else hooks):
            await _subscribe(service, hook, f"hook-{number}")
        began_s = time.perf_counter()
        await _append(service, events)
        await _until(hooks, events)
        seconds = time.perf_counter() - began_s
        delays_s = await _one_by_one(service, hooks, arrived, events, singles)
        lost = sum(events + singles - len(set(hook.ids)) for hook in hooks)
    quantiles = statistics.quantiles(delays_s, n=100)
    return Delivered(
        database=database,
        with_slow=with_slow,
        receivers=HEALTHY,
        deliveries=events * HEALTHY,
        seconds=seconds,
        delay_s_median=quantiles[49],
        delay_s_p99=quantiles[98],
        lost=lost,
    )


async def _one_by_one(
    service: Service, hooks: list[Receiver], arrived: list[tuple[int, float]], events: int, singles: int
) -> list[float]:
    arrived.clear()
    committed_s: dict[int, float] = {}
    for number in range(singles):
        seq = await _append(service, 1, commit=-1 - number)
        committed_s[seq] = time.perf_counter()
        await asyncio.sleep(STEP_S)
    await _until(hooks, events + singles)
    return [max(0.0, at_s - committed_s[seq]) for seq, at_s in arrived]


async def _subscribe(service: Service, hook: Receiver, name: str) -> None:
    webhook = Webhook(name=name, url=hook.url, events=("task.",))
    await service.house.webhooks.create(webhook, secret=None, after=None, actor="bench")


async def _append(service: Service, events: int, *, commit: int = 0) -> int:
    async with service.store.transaction() as tx:
        first = await tx.append_events([_event(commit, place) for place in range(events)])
    service.relay.knock()
    return first


async def _until(hooks: list[Receiver], events: int) -> None:
    for hook in hooks:
        await hook.until(lambda hook: len(hook.messages) >= events, within_s=WITHIN_S)


def _config(url: str) -> Config:
    flags = {"database_url": url, "webhook_allow": "127.0.0.0/8", "log_level": "error"}
    return load_config(environ={}, known_strategies=strategies.names(), flags=flags)


def _event(commit: int, place: int) -> Event:
    return Event(
        type=EventType.TASK_COMPLETED,
        kind="task",
        id=f"task-{commit}-{place}",
        vm=f"vm-{commit}-{place}",
        host=f"bm-{place % 100:03d}",
        delta={"cpu": 1000, "memory": 2048, "vms": 1},
        fence=1,
    )
