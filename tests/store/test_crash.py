"""Killed in the middle of its work, at any moment: what was acknowledged is there, once and whole."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest
from tests.store.builders import host_named

from virtflow.model.task import Task
from virtflow.store.contract import Removed, Store
from virtflow.store.open import open_store

#: Writes batches of 1 to 40 VMs and says each number only after its commit.
WRITER = """
import asyncio, sys
from tests.store.builders import add_hosts, event, instance, intern, key, task
from virtflow.store.contract import RoomChange
from virtflow.store.open import open_store
from virtflow.testing.builders import host, shape

async def write():
    store = open_store(sys.argv[1])
    await store.open()
    found = await store.host("a")
    host_id = found.id if found else (await add_hosts(store, host("a", cores=1_000_000, vms=1_000_000)))[0]
    print("open", flush=True)
    number = int(sys.argv[2])
    while True:
        numbers = range(number, number + 1 + number % 40)
        async with store.transaction() as tx:
            [shape_id] = await tx.intern_shapes([shape(cores=1)])
            amounts = {"cpu": 1000 * len(numbers), "vms": len(numbers)}
            assert not await tx.take_room([RoomChange(host_id, amounts, len(numbers))])
            await tx.add_instances([instance(n, shape_id=shape_id, host_id=host_id) for n in numbers])
            await tx.add_tasks([task(n, shape_id=shape_id, host_id=host_id) for n in numbers])
            await tx.append_events([event(n, vm="x" * 300) for n in numbers])
        print(numbers[0], numbers[-1], flush=True)
        number = numbers[-1] + 1

asyncio.run(write())
"""


def write_until_killed(url: str, first: int, after_s: float, *, under: tuple[str, ...] = ()) -> list[int]:
    """Returns the numbers that were acknowledged."""
    command = [*under, sys.executable, "-c", WRITER, url, str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() in {"open\n", ""}
        if after_s:
            time.sleep(after_s)
            process.send_signal(signal.SIGKILL)
        said = process.stdout.read()
    whole = [line.split() for line in said.splitlines(keepends=True) if line.endswith("\n")]
    return [n for line in whole for n in range(int(line[0]), int(line[1]) + 1)]


async def check(url: str, acknowledged: set[int]) -> int:
    """Everything that was acknowledged is there, and all tables tell the same; returns the next free number."""
    store = open_store(url)
    await store.open()
    try:
        instances = [row for chunk in [part async for part in store.scan_instances()] for row in chunk]
        tasks = [row for chunk in [part async for part in store.scan_tasks()] for row in chunk]
        numbers = _numbers(instances, tasks)
        assert acknowledged <= set(numbers)
        assert numbers == list(range(len(numbers)))
        await _agree(store, numbers)
        return len(numbers)
    finally:
        await store.close()


def _numbers(instances: list[Removed], tasks: list[Task]) -> list[int]:
    assert [row.instance.id for row in instances] == [row.id for row in tasks]
    return [int.from_bytes(row.id[6:]) for row in tasks]


async def _agree(store: Store, numbers: list[int]) -> None:
    if not numbers:
        return  # it was killed before it had even made its host
    a = await host_named(store, "a")
    assert (a.instances, a.used) == (len(numbers), {"cpu": 1000 * len(numbers), "vms": len(numbers)})
    events = [one for chunk in [part async for part in store.scan_events()] for one in chunk]
    assert [(one.seq, int(one.id)) for one in events] == [(number + 1, number) for number in numbers]


def is_sound(file: Path) -> bool:
    connection = apsw.Connection(str(file))
    try:
        return bool(connection.execute("PRAGMA integrity_check").get == "ok")
    finally:
        connection.close()


async def kill_often(url: str, times: int, seed: int) -> None:
    chance = random.Random(seed)
    acknowledged: set[int] = set()
    first = 0
    for _ in range(times):
        acknowledged |= set(write_until_killed(url, first, 0.002 + 0.08 * chance.random()))
        first = await check(url, acknowledged)
    assert acknowledged


async def test_a_few_kills(tmp_path: Path) -> None:
    await kill_often(f"sqlite:///{tmp_path}/virtflow.db", 3, seed=1)
    assert is_sound(tmp_path / "virtflow.db")


@pytest.mark.slow
async def test_many_kills(tmp_path: Path) -> None:
    await kill_often(f"sqlite:///{tmp_path}/virtflow.db", 12, seed=2)
    assert is_sound(tmp_path / "virtflow.db")


@pytest.mark.slow
@pytest.mark.service("postgresql")
async def test_many_kills_of_a_client_of_postgresql(postgresql_url: str) -> None:
    await kill_often(postgresql_url, 6, seed=3)


@pytest.mark.slow
@pytest.mark.service("strace")
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
async def test_a_kill_at_chosen_system_calls(tmp_path: Path, call: str) -> None:
    """Inside a commit: between two writes of the log, and before it is made durable."""
    url = f"sqlite:///{tmp_path}/virtflow.db"
    acknowledged: set[int] = set()
    first = 0
    for when in (3, 5, 8, 13) if call == "fdatasync" else (9, 20, 47, 102):
        under = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={call}:signal=SIGKILL:when={when}")
        acknowledged |= set(write_until_killed(url, first, 0, under=under))
        first = await check(url, acknowledged)
    assert first > 0
    assert is_sound(tmp_path / "virtflow.db")
