"""From what was measured to figures with goals: one function for each part of the benchmark."""

import argparse
import asyncio
import functools
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench import engine, failover, fsck, http, queue, relay, restart, store, tracing, webhooks
from bench.http import Measured, Plan, Verified
from bench.machine import Folder, fsync_times
from bench.report import Figure, shown

#: figures, and the details behind them
Found = tuple[list[Figure], dict[str, Any]]
MILLION = 1_000_000
HOSTS = 10_000
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
KINDS = {"schedule": "POST /schedule", "vm": "POST /v1/vms", "batch": "POST /v1/vms/batch of 1,000"}


# ── the engine ────────────────────────────────────────────────────────────────────────────────────


def measure_engine(*, quick: bool) -> Found:
    found = engine.measure(quick=quick)
    figures = [*_batch_figures(found), _decision_figure(found), *_growth_figures(found)]
    figures.append(
        Figure(
            key="engine.memory",
            what="memory of the engine per host",
            measured=found["memory_bytes_per_host"],
            unit="B",
            goal=400,
            stretch=100,
            less_is_better=True,
            beside="allocated by Python and NumPy",
        )
    )
    return figures, {"growth": found["growth"], "engine": found}


def _batch_figures(found: dict[str, Any]) -> Iterator[Figure]:
    naive_us = found["growth"]["loop over dicts"]
    for way, rates in found["batches"].items():
        is_compiled = way.endswith("compiled")
        for size, rate in rates.items():
            yield Figure(
                key=f"engine.{way}.{size}",
                what=f"engine, {way}, batch of one shape, {int(size):,} hosts",
                measured=rate,
                unit="/s",
                goal=1_000_000 if is_compiled else 100_000,
                stretch=4_000_000 if is_compiled else 300_000,
                beside=f"{naive_us[size] * rate / 1e6:,.0f} times a loop over dicts",
            )


def _decision_figure(found: dict[str, Any]) -> Figure:
    at = {way: times[str(engine.HOSTS)] for way, times in found["growth"].items()}
    ours = at["virtflow"]
    others = ", ".join(f"{way} {us:,.0f} µs ({us / ours:,.1f}×)" for way, us in at.items() if way != "virtflow")
    return Figure(
        key="engine.decision",
        what=f"one decision by itself, {engine.HOSTS:,} hosts",
        measured=ours,
        unit="µs",
        goal=20,
        stretch=2,
        less_is_better=True,
        beside=others,
    )


def _growth_figures(found: dict[str, Any]) -> Iterator[Figure]:
    exponents, sizes = found["growth_exponents"], list(found["growth"]["virtflow"])
    blank = Figure(key="", what="", measured=0, unit="", less_is_better=True)
    yield replace(
        blank,
        key="engine.growth",
        what=f"exponent of a decision from {int(sizes[0]):,} to {int(sizes[-1]):,} hosts",
        measured=exponents["virtflow"],
        goal=0.1,
        stretch=0.03,
        beside=", ".join(f"{way} {value:.2f}" for way, value in exponents.items() if way != "virtflow"),
    )
    for way, value in found["live_shapes_exponents"].items():
        times = found["live_shapes"][way]
        yield replace(
            blank,
            key=f"engine.live.{way}",
            what=f"exponent with 1 to {engine.LIVE_SHAPES[-1]:,} live shapes, {way}",
            measured=value,
            goal=0.6,
            stretch=0.5,
            beside=f"{', '.join(f'{us:.1f}' for us in times.values())} µs at {', '.join(times)} shapes",
        )


# ── the store alone ───────────────────────────────────────────────────────────────────────────────


def measure_store(databases: list[str], folders: list[Folder], *, quick: bool) -> Found:
    options = argparse.Namespace(hosts=HOSTS, batch=[1_000] if quick else [1, 1_000, 10_000], seconds=1.0)
    figures: list[Figure] = []
    details: list[dict[str, object]] = []
    for database, folder in _places(databases, folders, quick=quick):
        place = Folder(folder.name, folder.path / f"store-{database}")
        place.path.mkdir()
        place.path.chmod(0o755)
        with http.database_in(database, place.path) as url:
            where = f"{NAMES[database]}, {folder.name}"
            found = asyncio.run(store.measure(url, where, options, fsync_times(folder.path, seconds=0.3)))
        details.append(found)
        figures += _store_figures(found, where)
    return figures, {"store": details}


def _store_figures(found: dict[str, Any], where: str) -> Iterator[Figure]:
    for name, value in found.items():
        if name.startswith("batch_"):
            rows = int(name.removeprefix("batch_"))
            yield Figure(
                key=f"store.{where}.{rows}",
                what=f"store alone, {rows:,} VMs in a transaction, {where}",
                measured=value["vms_per_s"],
                unit="VMs/s",
                beside=f"fsync {found['fsync_p50_ms']} ms, p99 {value['p99_ms']} ms",
            )


# ── HTTP ──────────────────────────────────────────────────────────────────────────────────────────


def measure_http(databases: list[str], folders: list[Folder], *, quick: bool, say: Callable[[str], None]) -> Found:
    plan = http.QUICK if quick else http.FULL
    figures: list[Figure] = []
    measured: list[dict[str, object]] = []
    for found in http.measure(_places(databases, folders, quick=quick), plan):
        if isinstance(found, Verified):
            figures.append(_verified_figure(found))
            say(f"  {NAMES[found.database]}, {found.place}: {found.accepted:,} VMs counted after kill -9")
            continue
        measured.append(found.document())
        figures += _http_figures(found, plan)
        say(f"  {figures[-1].what}: {shown(figures[-1].measured, figures[-1].unit)}")
    return figures, {"http": measured}


def _http_figures(found: Measured, plan: Plan) -> Iterator[Figure]:
    yield from _tail_figures(found)
    is_batch = found.kind == "batch"
    outcome = found.outcome
    rate = Figure(
        key=f"http.{found.kind}.{found.database}.{found.place}",
        what=f"{KINDS[found.kind]}, {_where(found)}",
        measured=outcome.vms_per_s,
        unit="VMs/s",
        goal=100_000 if is_batch else 10_000,
        stretch=500_000 if is_batch else 25_000,
        beside=f"server {found.server_us_per_vm:.1f} µs/VM, fsync p50 {found.fsync.p50_ms:.2f} ms",
    )
    if is_batch:
        yield _million(found, plan)
    yield rate


def _tail_figures(found: Measured) -> Iterator[Figure]:
    """Singles only: a batch waits for its thousand, not for the disk."""
    if found.kind == "batch":
        return
    fsync_ms = found.fsync.p50_ms
    yield Figure(
        key=f"http.{found.kind}.{found.database}.{found.place}.p99",
        what=f"{KINDS[found.kind]}, p99 at {found.connections} clients, {_where(found)}",
        measured=found.outcome.p99_ms,
        unit="ms",
        goal=3 * fsync_ms + 5,
        stretch=2 * fsync_ms + 4,
        less_is_better=True,
        beside=f"p50 {found.outcome.p50_ms:.1f} ms, max {found.outcome.max_ms:.1f} ms",
    )


def _million(found: Measured, plan: Plan) -> Figure:
    outcome = found.outcome
    scaled = outcome.seconds * MILLION / outcome.accepted
    is_whole = outcome.accepted >= MILLION
    return Figure(
        key=f"http.million.{found.database}.{found.place}",
        what=f"1,000,000 VMs on {plan.hosts:,} hosts through HTTP, {_where(found)}",
        measured=scaled,
        unit="s",
        goal=10,
        stretch=2,
        less_is_better=True,
        beside="" if is_whole else f"from {outcome.accepted:,} in {outcome.seconds:.1f} s",
    )


def _verified_figure(found: Verified) -> Figure:
    return Figure(
        key=f"http.verified.{found.database}.{found.place}",
        what=f"counted after kill -9 and restart, {NAMES[found.database]}, {found.place}",
        measured=found.accepted,
        unit="VMs",
        beside="exactly what was acknowledged, host by host",
    )


def _where(found: Measured) -> str:
    return f"{NAMES[found.database]}, {found.place}"


# ── restart and memory ────────────────────────────────────────────────────────────────────────────


@functools.cache
def _restarted(database: str, folder: Path, vms: int) -> restart.Restarted:
    """Measured once for both parts."""
    return restart.measure(folder / f"restart-{database}", hosts=HOSTS, vms=vms, database=database)


def measure_restart(database: str, folder: Folder, *, quick: bool) -> Found:
    found = _restarted(database, folder.path, _vms(quick=quick))
    figure = Figure(
        key=f"restart.{database}",
        what=f"kill -9, start, first placement: {found.hosts:,} hosts, {found.vms:,} VMs, {NAMES[database]}",
        measured=found.median_s,
        unit="s",
        goal=2,
        stretch=0.5,
        less_is_better=True,
        beside=f"each start: {', '.join(f'{taken:.2f}' for taken in found.first_placement_s)} s",
    )
    return [figure], {"restart": found.document()}


def measure_memory(database: str, folder: Folder, *, quick: bool) -> Found:
    found = _restarted(database, folder.path, _vms(quick=quick))
    nothing, with_hosts, with_vms = (held / 2**20 for held in found.resident_bytes)
    blank = Figure(key="", what="", measured=0, unit="B", less_is_better=True)
    per_host = replace(
        blank,
        key="memory.host",
        what="memory of the server per host",
        measured=found.bytes_per_host,
        goal=400,
        stretch=100,
        beside=f"{nothing:.0f} MiB with nothing, {with_hosts:.0f} MiB with {found.hosts:,} hosts",
    )
    per_vm = replace(
        blank,
        key="memory.vm",
        what="memory of the server per VM",
        measured=found.bytes_per_vm,
        goal=200,
        stretch=40,
        beside=f"{with_vms:.0f} MiB with {found.vms:,} VMs",
    )
    return [per_host, per_vm], {"memory": found.document()}


# ── the checker ───────────────────────────────────────────────────────────────────────────────────


def measure_failover(folder: Folder, *, quick: bool) -> Found:
    found = failover.measure(folder.path / "failover", hosts=HOSTS, kills=5 if quick else 50)
    blank = Figure(key="", what="", measured=0, unit="s", less_is_better=True)
    figures = [
        replace(
            blank,
            key=f"failover.p{percent}",
            what=f"leader killed, next placement, p{percent}: {found.hosts:,} hosts, lease {found.lease_s:g} s",
            measured=found.quantile_s(percent / 100),
            goal=goal,
            stretch=stretch,
            beside=f"{len(found.taken_s)} kills, the longest {max(found.taken_s):.2f} s",
        )
        for percent, goal, stretch in ((50, 1.0, 0.5), (99, 2.5, 1.0))
    ]
    return figures, {"failover": found.document()}


def measure_fsck(databases: list[str], folder: Folder, *, quick: bool) -> Found:
    found = [
        fsck.measure(folder.path / f"fsck-{database}", database=database, events=_vms(quick=quick))
        for database in databases
    ]
    figures = [
        Figure(
            key=f"fsck.{one.database}",
            what=f"fsck --history of {one.events:,} events, {NAMES[one.database]}",
            measured=one.seconds,
            unit="s",
            goal=60,
            stretch=20,
            less_is_better=True,
            beside=f"{one.events_per_s:,.0f} events/s, {one.resident_bytes / 2**20:,.0f} MiB",
        )
        for one in found
    ]
    return figures, {"fsck": [asdict(one) for one in found]}


# ── buses ─────────────────────────────────────────────────────────────────────────────────────────


def measure_relay(databases: list[str], folder: Folder, *, quick: bool) -> Found:
    found = [
        relay.measure(
            folder.path / f"relay-{bus}-{database}",
            bus=bus,
            database=database,
            events=20_000 if quick else 100_000,
            singles=200,
        )
        for database in databases
        for bus in relay.BUSES
        if relay.is_here(bus)
    ]
    figures = [
        Figure(
            key=f"relay.{one.bus}.{one.database}",
            what=f"{one.events:,} events from the log of {NAMES[one.database]} to {one.bus}",
            measured=one.events_per_s,
            unit="/s",
            beside=f"one alone: {one.lag_s_median * 1000:.1f} ms, p99 {one.lag_s_p99 * 1000:.0f} ms",
        )
        for one in found
    ]
    return figures, {"relay": [asdict(one) for one in found]}


# ── webhooks ──────────────────────────────────────────────────────────────────────────────────────


def measure_webhooks(databases: list[str], folder: Folder, *, quick: bool) -> Found:
    found = [
        webhooks.measure(
            folder.path / f"webhooks-{database}-{with_slow}",
            database=database,
            with_slow=with_slow,
            events=500 if quick else 2_500,
            singles=100 if quick else 500,
        )
        for database in databases
        for with_slow in (False, True)
    ]
    figures = [figure for one in found for figure in _webhook_figures(one)]
    return figures, {"webhooks": [asdict(one) for one in found]}


def _webhook_figures(one: webhooks.Delivered) -> list[Figure]:
    key = f"webhooks.{one.database}.{'slow' if one.with_slow else 'alone'}"
    beside = f"with a receiver that takes {webhooks.SLOW_S:g} s" if one.with_slow else "all of them healthy"
    where = f"to {one.receivers} receivers on {NAMES[one.database]}, {beside}"
    return [
        Figure(key=f"{key}.rate", what=f"deliveries {where}", measured=one.deliveries_per_s, unit="/s"),
        Figure(
            key=f"{key}.delay",
            what=f"delay p99 of the healthy, {where}",
            measured=one.delay_s_p99,
            unit="s",
            goal=1.0,
            less_is_better=True,
            beside=f"median {one.delay_s_median * 1000:.0f} ms; lost {one.lost} of {one.deliveries:,}",
        ),
    ]


# ── the queue ─────────────────────────────────────────────────────────────────────────────────────


def measure_queue(folder: Folder, *, quick: bool) -> Found:
    found = queue.measure(folder.path, quick=quick)
    carried = found.carried
    ways = {"RabbitMQ": found.by_broker, "RabbitMQ that is away": found.broker_down, "no broker": found.database}
    figures = [
        Figure(
            key="queue.knocks",
            what="knocks called, carried, confirmed and looked at",
            measured=carried.knocks_per_s,
            unit="/s",
            beside=f"{carried.knocks_per_s / carried.library_per_s:,.0f}× what messages of one id make",
        ),
        Figure(
            key="queue.alone",
            what="the same one by one, each seen before the next is called",
            measured=carried.alone_per_s,
            unit="/s",
            beside=f"{carried.library_per_s:,.0f}/s confirmed messages of the library alone",
        ),
    ]
    for way, delays in ways.items():
        figures.append(
            Figure(
                key=f"queue.delay.{way}",
                what=f"from 202 to a host elsewhere, p50, {way}",
                measured=delays.p50_ms,
                unit="ms",
                less_is_better=True,
                beside=f"p99 {delays.p99_ms:.1f} ms; {delays.accepted_per_s:,.0f} accepted/s, one after the other",
            )
        )
    return figures, {"queue": {name: part._asdict() for name, part in found._asdict().items()}}


# ── tracing ───────────────────────────────────────────────────────────────────────────────────────


def measure_tracing(folder: Folder, *, quick: bool) -> Found:
    plan = http.QUICK if quick else http.FULL
    found = list(tracing.measure(folder, plan))
    off = {cost.kind: cost for cost in found if cost.mode == "off"}
    figures = [
        Figure(
            key=f"tracing.{cost.kind}.{cost.mode}",
            what=f"{KINDS[cost.kind]}, traces {cost.mode}, SQLite, {folder.name}",
            measured=cost.outcome.vms_per_s,
            unit="VMs/s",
            beside=f"server {cost.server_us_per_request:.1f} µs/request, "
            f"{cost.server_us_per_request / off[cost.kind].server_us_per_request:.2f}× of off",
        )
        for cost in found
    ]
    return figures, {"tracing": [cost.document() for cost in found]}


def _vms(*, quick: bool) -> int:
    return MILLION // 10 if quick else MILLION


def _places(databases: list[str], folders: list[Folder], *, quick: bool) -> list[tuple[str, Folder]]:
    """Each database in each folder; in a hurry only SQLite is also measured without a disk."""
    every = [(database, folder) for database in databases for folder in folders]
    return [
        (database, folder) for database, folder in every if folder is folders[0] or database == "sqlite" or not quick
    ]
