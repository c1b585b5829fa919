"""Events on their way to buses: how many a second, and how long one alone takes from its commit."""

import asyncio
import contextlib
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.http import database_in
from virtflow.config import Config, load_config
from virtflow.engine import strategies
from virtflow.main import Service, build
from virtflow.model.event import Event, EventType
from virtflow.store.open import open_store
from virtflow.testing.kafka import kafka_cluster
from virtflow.testing.nats import nats_server
from virtflow.testing.rabbitmq import rabbitmq_server

#: events of one commit, each of another object: as a batch of requests writes them
EVENTS_AT_ONCE = 1_000
WITHIN_S = 300.0
BUSES = ("nats", "kafka", "amqp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One bus on one database."""

    bus: str
    database: str
    events: int
    seconds: float
    #: of single events, from the commit until the cursor has moved
    lag_s_median: float
    lag_s_p99: float

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds


def is_here(bus: str) -> bool:
    return bus != "amqp" or shutil.which("rabbitmq-server") is not None


def measure(folder: Path, *, bus: str, database: str, events: int, singles: int) -> Told:
    folder.mkdir()
    folder.chmod(0o755)
    with database_in(database, folder) as url, _settings_of(bus) as settings:
        return asyncio.run(_measure(url, settings, bus, database, events, singles))


@contextlib.contextmanager
def _settings_of(bus: str) -> Iterator[Mapping[str, str]]:
    if bus == "nats":
        with nats_server() as nats:
            yield {"events_nats_url": nats.url}
    elif bus == "kafka":
        with kafka_cluster() as kafka:
            yield {"events_kafka_servers": kafka.servers}
    else:
        with rabbitmq_server() as rabbitmq:
            yield {"events_amqp_url": rabbitmq.url()}


async def _measure(url: str, settings: Mapping[str, str], bus: str, database: str, events: int, singles: int) -> Told:
    # written before anybody is told, so that reading the log and sending is all that is measured
    async with build(_config(url)).running():
        pass
    store = open_store(url)
    await store.open()
    for number in range(events // EVENTS_AT_ONCE):
        async with store.transaction() as tx:
            await tx.append_events([_event(number, place) for place in range(EVENTS_AT_ONCE)])
    await store.close()
    service = build(_config(url, **settings))
    began_s = time.perf_counter()
    async with service.running():
        await _until_told(service, bus)
        seconds = time.perf_counter() - began_s
        lags_s = [await _tell_one(service, bus, number) for number in range(singles)]
    quantiles = statistics.quantiles(lags_s, n=100)
    return Told(
        bus=bus,
        database=database,
        events=events,
        seconds=seconds,
        lag_s_median=quantiles[49],
        lag_s_p99=quantiles[98],
    )


def _config(url: str, **settings: str) -> Config:
    flags = {"database_url": url, "events_keep": str(10**9), **settings}
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


async def _tell_one(service: Service, bus: str, number: int) -> float:
    began_s = time.perf_counter()
    async with service.store.transaction() as tx:
        await tx.append_events([_event(-1, number)])
    service.relay.knock()
    await _until_told(service, bus)
    return time.perf_counter() - began_s


async def _until_told(service: Service, bus: str) -> None:
    _, newest = await service.store.event_range()
    async with asyncio.timeout(WITHIN_S):
        while True:
            outlet = await service.store.outlet(bus)
            if outlet is not None and outlet.cursor >= newest:
                return
            await asyncio.sleep(0.001)
