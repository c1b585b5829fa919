"""What do the processes that share the database say of themselves?"""

from collections.abc import Iterator, Sequence

from virtflow.config import Config
from virtflow.control.processes import SILENT_S
from virtflow.model.errors import VirtflowError
from virtflow.model.finding import Finding, bad, ok, warn
from virtflow.model.health import Status
from virtflow.model.process import Process
from virtflow.model.times import time_text
from virtflow.store.open import open_store

PART = "processes"


async def check_processes(config: Config) -> Sequence[Finding]:
    try:
        store = open_store(config.database_url.reveal(), reading=True)
        await store.open()
    except VirtflowError:
        return []  # said where the database is looked at
    try:
        return list(judge_processes(await store.processes()))
    finally:
        await store.close()


def judge_processes(processes: Sequence[Process]) -> Iterator[Finding]:
    """Who said goodbye is not missed."""
    there = [process for process in processes if process.roles]
    if not there:
        yield warn(PART, "none is running", "virtflow serve starts one")
    for process in there:
        who = f"{process.id} on {process.node}" if process.node else process.id
        if process.silent_ms > SILENT_S * 1000:
            silent_s = process.silent_ms // 1000
            yield warn(PART, f"{who} has said nothing for {silent_s} s", "see whether it still runs; start another one")
        elif not process.unwell:
            yield ok(PART, f"{who} is well")
        else:
            yield from _of_its_parts(who, process)


def _of_its_parts(who: str, process: Process) -> Iterator[Finding]:
    for one in process.unwell:
        text = f"{who} says that its {one.part} is {one.status} since {time_text(one.since_ms)}: {one.cause}"
        yield (bad if one.status is Status.FAILING else warn)(PART, text, one.remedy or "see its log")
