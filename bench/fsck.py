"""A long past: how long `virtflow fsck --history` takes to judge it, and how much memory."""

import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench import restart
from bench.http import database_in
from virtflow.config import load_config
from virtflow.engine import strategies
from virtflow.main import build
from virtflow.model.event import EventType
from virtflow.store.contract import EventFilter

HOSTS = 10_000
#: of ten VMs, one is deleted again
DELETED_PART = 10
DELETED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One check, from the start of its process to its end."""

    database: str
    events: int
    seconds: float
    resident_bytes: int

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds


def measure(folder: Path, *, database: str, events: int) -> Checked:
    """Lives the past that is checked: hosts, VMs, deletions, each with its event."""
    folder.mkdir()
    folder.chmod(0o755)
    with database_in(database, folder) as url:
        deleted = (events - HOSTS) // (DELETED_PART + 1)
        asyncio.run(restart.fill(url, hosts=HOSTS, vms=events - HOSTS - deleted))
        asyncio.run(_delete(url, deleted))
        return _check(url, database, at_least=events)


async def _delete(url: str, count: int) -> None:
    """Every tenth, in the order in which they came."""
    config = load_config(environ={}, known_strategies=strategies.names(), flags={"database_url": url})
    service = build(config)
    async with service.running() as house:
        after = 0
        while count > 0:
            found = await service.store.events(
                EventFilter(types=(EventType.TASK_COMPLETED.value,)), after=after, limit=DELETED_AT_ONCE * DELETED_PART
            )
            names = [event.vm for event in found[::DELETED_PART]][:count]
            await house.vms.delete_many(names, actor="bench")
            after, count = found[-1].seq, count - len(names)


def _check(url: str, database: str, *, at_least: int) -> Checked:
    command = [sys.executable, "-m", "virtflow.main", "fsck", "--history", "--database-url", url, "-o", "json"]
    began_s = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        report = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    taken_s = time.perf_counter() - began_s
    if process.returncode or report["events"] < at_least:
        raise RuntimeError(f"the check ended with {process.returncode}: {json.dumps(report)[:2000]}")
    return Checked(database=database, events=report["events"], seconds=taken_s, resident_bytes=usage.ru_maxrss * 1024)
