"""The store alone: rows per second of the transaction that accepts and places, and what the reads cost.

`python -m bench.store [--hosts 10000] [--batch 1000] [--seconds 3] [--without postgresql]`
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.machine import Fsync, fsync_times, mean, percentile, resident_bytes, work_folders
from bench.postgres import is_here, postgresql_in
from virtflow.model.event import Event, EventType
from virtflow.model.instance import Instance
from virtflow.model.names import derived_vm_name, id_to_text
from virtflow.model.shape import Shape, shape
from virtflow.model.task import Task, TaskState
from virtflow.store.contract import Answer, RoomChange, Store
from virtflow.store.open import open_store
from virtflow.testing.builders import host

NOW_MS = 1_700_000_000_000
SHAPE = shape({"cpu": 1_000, "memory": 1_024, "disk": 10})
DELTA = msgspec.Raw(msgspec.json.encode(SHAPE.resources))
HOSTS_AT_ONCE = 1_000


class Batch(NamedTuple):
    """What one round of the scheduler writes."""

    changes: list[RoomChange]
    instances: list[Instance]
    tasks: list[Task]
    events: list[Event]
    answer: Answer


class Figures(NamedTuple):
    rounds: int
    vms: int
    vms_per_s: float
    p50_ms: float
    p99_ms: float
    #: how long a timer of 1 ms was late beside it: what everybody else on the loop feels
    lag_p99_ms: float


async def add_hosts(store: Store, number: int) -> list[int]:
    ids: list[int] = []
    for start in range(0, number, HOSTS_AT_ONCE):
        names = [f"bm-{n:05}" for n in range(start, min(number, start + HOSTS_AT_ONCE))]
        async with store.transaction() as tx:
            ids += await tx.add_hosts(
                [host(name, cores=10_000, memory_gib=10_000, disk_gib=100_000, vms=10_000) for name in names]
            )
    return ids


def batch(host_ids: Sequence[int], size: int, shape_id: int, chance: random.Random, number: int) -> Batch:
    """As many hosts as VMs, or all of them: what spreading does, which is the worst for the ledger."""
    keys = [_key(number, place) for place in range(size)]
    chosen = chance.sample(host_ids, min(size, len(host_ids)))
    on = [chosen[place % len(chosen)] for place in range(size)]
    times = {host_id: on.count(host_id) for host_id in chosen} if size > len(chosen) else dict.fromkeys(chosen, 1)
    return Batch(
        changes=[
            RoomChange(host_id, {name: amount * n for name, amount in SHAPE.wants}, n) for host_id, n in times.items()
        ],
        instances=[
            Instance(id=key, shape_id=shape_id, host_id=host_id, created_ms=NOW_MS, placed_ms=NOW_MS, fence=1)
            for key, host_id in zip(keys, on, strict=True)
        ],
        tasks=[_task(key, shape_id, host_id) for key, host_id in zip(keys, on, strict=True)],
        events=[_event(key, host_id) for key, host_id in zip(keys, on, strict=True)],
        answer=Answer(
            principal="bench",
            key=str(number),
            request_hash=b"0" * 16,
            status=202,
            body=b"[" + b",".join(b'{"id":"%s"}' % key.hex().encode() for key in keys) + b"]",
            created_ms=NOW_MS,
        ),
    )


def _key(number: int, place: int) -> bytes:
    """Time-ordered, as a UUID of version 7 is."""
    return (NOW_MS + number).to_bytes(6) + place.to_bytes(2) + os.urandom(8)


def _task(key: bytes, shape_id: int, host_id: int) -> Task:
    return Task(
        id=key,
        instance_id=key,
        state=TaskState.COMPLETED,
        shape_id=shape_id,
        accepted_ms=NOW_MS,
        ended_ms=NOW_MS,
        host_id=host_id,
    )


def _event(key: bytes, host_id: int) -> Event:
    return Event(
        type=EventType.TASK_COMPLETED,
        kind="task",
        id=id_to_text(key),
        at_ms=NOW_MS,
        vm=derived_vm_name(key),
        host=f"bm-{host_id:05}",
        pool="default",
        delta=DELTA,
        fence=1,
        now="completed",
    )


async def write(store: Store, wanted: Shape, rows: Batch) -> None:
    async with store.transaction() as tx:
        await tx.check_fence(1)
        await tx.intern_shapes([wanted])
        if await tx.take_room(rows.changes):
            raise RuntimeError("the fleet of the measurement is full")
        await tx.add_instances(rows.instances)
        await tx.add_tasks(rows.tasks)
        await tx.remember_answers([rows.answer])
        await tx.append_events(rows.events)


async def measure_writes(store: Store, host_ids: Sequence[int], size: int, seconds: float, first: int) -> Figures:
    """Making the rows is not counted: it is the work of whoever calls."""
    chance = random.Random(1)
    async with store.transaction() as tx:
        [shape_id] = await tx.intern_shapes([SHAPE])
    taken_ms: list[float] = []
    late_ms: list[float] = []
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        rows = batch(host_ids, size, shape_id, chance, first + len(taken_ms))
        async with lag_beside(late_ms):
            began_s = time.perf_counter()
            await write(store, SHAPE, rows)
            taken_ms.append((time.perf_counter() - began_s) * 1000)
            await asyncio.sleep(0.001)  # so that the timer beside us sees the end, too
    return Figures(
        rounds=len(taken_ms),
        vms=len(taken_ms) * size,
        vms_per_s=round(size / mean(taken_ms) * 1000),
        p50_ms=round(percentile(taken_ms, 50), 2),
        p99_ms=round(percentile(taken_ms, 99), 2),
        lag_p99_ms=round(percentile(late_ms, 99), 2),
    )


@contextlib.asynccontextmanager
async def lag_beside(late_ms: list[float], step_s: float = 0.001) -> AsyncIterator[None]:
    async def watch() -> None:
        while True:
            began_s = time.perf_counter()
            await asyncio.sleep(step_s)
            late_ms.append((time.perf_counter() - began_s - step_s) * 1000)

    task = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()


async def measure_reads(store: Store, keys: Sequence[bytes]) -> dict[str, float]:
    """Microseconds for one row, milliseconds for the whole fleet."""

    async def each_us(read: Callable[[bytes], Awaitable[object]]) -> float:
        began_s = time.perf_counter()
        for key in keys:
            await read(key)
        return round((time.perf_counter() - began_s) / len(keys) * 1e6, 1)

    began_s = time.perf_counter()
    hosts = sum([len(chunk) async for chunk in store.all_hosts()])
    all_hosts_ms = round((time.perf_counter() - began_s) * 1000, 1)
    began_s = time.perf_counter()
    await store.counts()
    return {
        "task_us": await each_us(store.task),
        "instance_us": await each_us(store.instance),
        "by_name_us": await each_us(lambda key: store.instance_by_name(derived_vm_name(key))),
        "all_hosts_ms": all_hosts_ms,
        "counts_ms": round((time.perf_counter() - began_s) * 1000, 1),
        "hosts": hosts,
    }


async def measure(url: str, where: str, options: argparse.Namespace, fsync: Fsync) -> dict[str, object]:
    began_s = time.perf_counter()
    store = open_store(url)
    await store.open()
    opened_ms = (time.perf_counter() - began_s) * 1000
    async with store.transaction() as tx:
        await tx.take_fence()
    host_ids = await add_hosts(store, options.hosts)
    found: dict[str, object] = {"where": where, "fsync_p50_ms": round(fsync.p50_ms, 3), "open_ms": round(opened_ms, 1)}
    first = 0
    for size in options.batch:
        figures = await measure_writes(store, host_ids, size, options.seconds, first)
        first += figures.rounds
        found[f"batch_{size}"] = figures._asdict()
    keys = [one.instance.id async for chunk in store.scan_instances() for one in chunk][:2_000]
    found["reads"] = await measure_reads(store, keys)
    found["rss_mib"] = resident_bytes(os.getpid()) // 2**20
    await store.close()
    return found


def show(found: dict[str, object]) -> None:
    print(f"\n{found['where']} (fdatasync {found['fsync_p50_ms']} ms, opened in {found['open_ms']} ms)")
    for name, value in found.items():
        if isinstance(value, dict):
            print(f"  {name:<12}", "  ".join(f"{key} {number:,}" for key, number in value.items()))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.store", description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64, 1_000, 10_000])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each size of a batch")
    parser.add_argument("--disk", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--without", choices=("sqlite", "postgresql"), nargs="*", default=[])
    options = parser.parse_args(arguments)
    with work_folders(options.disk) as folders:
        for folder in folders:
            fsync = fsync_times(folder.path)
            if "sqlite" not in options.without:
                url = f"sqlite:///{folder.path}/bench.db"
                _tell(asyncio.run(measure(url, f"SQLite, {folder.name}", options, fsync)))
            if "postgresql" not in options.without and is_here():
                with postgresql_in(folder.path) as url:
                    _tell(asyncio.run(measure(url, f"PostgreSQL, {folder.name}", options, fsync)))


def _tell(found: dict[str, object]) -> None:
    show(found)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
