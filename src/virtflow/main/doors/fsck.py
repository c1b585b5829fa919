"""`virtflow fsck`."""

import asyncio
import sys
from collections.abc import Sequence

import msgspec

from virtflow.config import Config
from virtflow.control.fsck import Report
from virtflow.control.fsck import fsck as check_everything
from virtflow.main.doors.door import config_from, guarded, take_option
from virtflow.store.open import open_store


def fsck(argv: Sequence[str]) -> int:
    """`virtflow fsck`: proves the promises from the database alone. Exit code 1 when something does not hold."""
    words = list(argv)
    as_json = take_option(words, "-o", "--output") == "json"
    return guarded(lambda: asyncio.run(_fsck(config_from(words), as_json=as_json)))


async def _fsck(config: Config, *, as_json: bool) -> int:
    store = open_store(config.database_url.reveal(), reading=True)
    await store.open()
    try:
        report = await check_everything(store, progress=_no_progress if as_json else _show_progress)
    finally:
        await store.close()
    if as_json:
        print(msgspec.json.encode(report).decode())
    else:
        _print_report(report)
    return 1 if report.violations_total else 0


def _print_report(report: Report) -> None:
    print(
        f"checked {report.hosts} hosts, {report.instances} instances, {report.tasks} tasks, {report.events} events"
        + ("" if report.whole_history else " (the oldest events are no longer kept)")
    )
    for violation in report.violations:
        print(f"  {violation.code}: {violation.text}")
    if report.violations_total > len(report.violations):
        print(f"  … and {report.violations_total - len(report.violations)} more")
    print("everything holds" if not report.violations_total else f"{report.violations_total} violations")


def _show_progress(what: str, count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{what}: {count}   ", end="", file=sys.stderr, flush=True)


def _no_progress(what: str, count: int) -> None:
    pass
