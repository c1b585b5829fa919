"""Which implementation of each part the settings ask for."""

import importlib
import os
import socket
from collections.abc import Callable, Sequence

from virtflow import __version__
from virtflow.config import ROLES, Config
from virtflow.control.clock import SharedClock, SystemClock
from virtflow.control.mirror import Mirror
from virtflow.control.presence import Presence
from virtflow.control.self_hosts import SelfHosts
from virtflow.control.strategy_file import StrategyFile
from virtflow.control.tracing import TracedMailer, Tracer
from virtflow.election import Election
from virtflow.election.open import open_election
from virtflow.engine import strategies
from virtflow.events import Guard, Mailer, Sink
from virtflow.events.open import open_sinks
from virtflow.inventory import Inventory
from virtflow.inventory.open import open_inventories
from virtflow.model.clock import Clock
from virtflow.model.health import Unwell
from virtflow.model.process import Process
from virtflow.queue import Observer, Queue
from virtflow.queue.open import open_queue
from virtflow.store.contract import Store
from virtflow.store.open import open_store
from virtflow.store.vault import open_vault


def make_store(config: Config) -> Store:
    origin = process_name() if config.is_shared else ""
    return open_store(config.database_url.reveal(), origin=origin, vault=open_vault(config.secrets_key_file))


def make_clock(store: Store) -> Clock:
    """Where several processes share a database, its clock is that of all of them."""
    return SharedClock(SystemClock(), store) if store.origin else SystemClock()


def process_name() -> str:
    """Unlike that of any other process, and of an earlier one with our number."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{os.urandom(3).hex()}"


def this_process(config: Config, name: str, *, now_ms: int) -> Process:
    """As others see it. `name`: under which it writes, where several do."""
    return Process(
        id=name or process_name(),
        node=node_of(config),
        roles=tuple(role for role in ROLES if role in config.role),
        address="",
        version=__version__,
        started_ms=now_ms,
    )


def reachable(address: str) -> str:
    """Where others find it: who listens on every address is found by the name of the machine."""
    for every in ("//0.0.0.0:", "//[::]:"):
        address = address.replace(every, f"//{socket.gethostname()}:")
    return address


def make_election(office: str, config: Config, store: Store, clock: Clock) -> Election:
    return open_election(
        office,
        store=store,
        lease_s=config.lease_s,
        clock=clock,
        kind=config.election,
        kubernetes_url=config.kubernetes_url,
        kubernetes_account=config.kubernetes_account,
        kubernetes_lease=config.kubernetes_lease,
    )


def make_queue(config: Config, observer: Observer) -> Queue:
    return open_queue(
        config.broker_url,
        prefetch=config.broker_prefetch,
        timeout_s=config.broker_timeout_s,
        observer=observer,
    )


def make_sinks(config: Config) -> Sequence[Sink]:
    return open_sinks(
        nats_url=config.events_nats_url,
        kafka_servers=config.events_kafka_servers,
        amqp_url=config.events_amqp_url,
        plugin=config.events_plugin,
        prefix=config.events_prefix,
    )


def make_mailer(config: Config, clock: Clock, tracer: Tracer | None) -> Mailer:
    guard = Guard(allowed=config.webhook_allow)
    return Mailer(guard, clock=clock) if tracer is None else TracedMailer(guard, clock=clock, tracer=tracer)


def make_tracer(config: Config, process: str) -> Tracer | None:
    if not config.otel_endpoint:
        return None
    from virtflow.main.otel import OtelTracer  # of an extra that need not be there

    return OtelTracer(
        config.otel_endpoint, share=config.otel_share, process=process or process_name(), roles=sorted(config.role)
    )


def make_inventories(config: Config) -> Sequence[Inventory]:
    found = open_inventories(
        url=config.inventory_url,
        token=config.inventory_token,
        file=config.inventory_file,
        plugin=config.inventory_plugin,
        timeout_s=config.inventory_timeout_s,
    )
    if not config.simulate:
        return found
    # testing stands above main in the house, so it is reached like a guest's plug-in
    return [importlib.import_module("virtflow.testing.fleets").SimulatedInventory(config.simulate)]


def make_strategy_file(config: Config, mirror: Mirror) -> StrategyFile | None:
    """Read once already: who starts with a wrong one is told so, as of any other setting."""
    if config.strategy_file is None:
        return None
    file = StrategyFile(config.strategy_file, known=strategies.names, use=mirror.use_strategy)
    mirror.use_strategy(file.read())
    return file


def make_self_hosts(config: Config) -> SelfHosts:
    return SelfHosts(names=config.self_hosts, label=config.self_label, here=[node_of(config)])


def make_presence(
    config: Config,
    store: Store,
    mirror: Mirror,
    clock: Clock,
    *,
    changed: Callable[[], None],
    unwell: Callable[[], tuple[Unwell, ...]],
) -> Presence | None:
    """The embedded database has one process, which knows where it is."""
    if not store.origin:
        return None
    process = this_process(config, store.origin, now_ms=clock.now_ms())
    return Presence(process, store=store, mirror=mirror, changed=changed, unwell=unwell)


def node_of(config: Config) -> str:
    """The machine we run on, by the name that its host would bear. Simulated hosts are no machines."""
    return config.node_name or ("" if config.simulate else socket.gethostname())
