"""`virtflow fsck`."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import yaml

from virtflow.config import Config
from virtflow.control import history
from virtflow.control.fsck import Report
from virtflow.control.fsck import fsck as check_everything
from virtflow.control.history.report import Verdict
from virtflow.main.doors.door import config_from, guarded, take_option, take_options, take_switch
from virtflow.model.errors import InvalidRequest, Unavailable
from virtflow.store.contract import Store
from virtflow.store.open import open_store

FORMATS = ("table", "json", "yaml")
#: between two lines of progress, where it is not a terminal that shows it
PROGRESS_S = 5.0
#: what cannot be looked at is neither right nor wrong
_EXITS = {Unavailable: 5, InvalidRequest: 2}


def fsck(argv: Sequence[str]) -> int:
    """`virtflow fsck`: proves the promises from the database alone. Exit code 1 when something does not hold."""
    words = list(argv)
    form = take_option(words, "-o", "--output") or "table"
    clients = [Path(name) for name in take_options(words, "--clients")]
    at_rest = take_switch(words, "--at-rest")
    replays = take_switch(words, "--history") or at_rest or bool(clients)

    def run() -> int:
        if form not in FORMATS:
            raise InvalidRequest(f"no format {form!r}", remedy=f"choose one of {', '.join(FORMATS)}")
        config = config_from(words)
        if not replays:
            return asyncio.run(_fsck(config, form))
        return asyncio.run(_history(config, form, clients=clients, at_rest=at_rest))

    return guarded(run, exits=_EXITS)


async def _fsck(config: Config, form: str) -> int:
    store = await _opened(config)
    try:
        report = await check_everything(store, progress=Progress())
    finally:
        await store.close()
    if form == "table":
        _print_report(report)
    else:
        _print_document(msgspec.to_builtins(report), form)
    return 1 if report.violations_total else 0


async def _history(config: Config, form: str, *, clients: Sequence[Path], at_rest: bool) -> int:
    began_s = time.monotonic()
    store = await _opened(config)
    progress = Progress()
    try:
        report = await history.check_history(
            store, clients=clients, at_rest=at_rest, tries_max=config.retries_max + 1, progress=progress
        )
    finally:
        await store.close()
        progress.end()
    if form == "table":
        _print_lines(_history_lines(report, time.monotonic() - began_s))
    else:
        _print_document(report.document(), form)
    return 1 if report.violations_total else 0


async def _opened(config: Config) -> Store:
    store = open_store(config.database_url.reveal(), reading=True)
    await store.open()
    return store


class Progress:
    """On a terminal one line that changes; elsewhere a line now and then, and none for what is quickly done."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._told_s = time.monotonic()

    def __call__(self, what: str, count: int) -> None:
        if self._is_terminal:
            print(f"\r{what}: {count:,}\x1b[K", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._told_s >= PROGRESS_S:
            self._told_s = time.monotonic()
            print(f"{what}: {count:,}", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────


def _history_lines(report: history.Report, taken_s: float) -> Iterator[str]:
    kept = "" if report.is_whole else f"; events before {report.oldest_event:,} are no longer kept"
    operations = f", {report.operations:,} operations of clients" if report.operations else ""
    yield (
        f"{report.hosts:,} hosts, {report.vms:,} VMs, {report.tasks:,} tasks, {report.answers:,} answers, "
        f"{report.events:,} events{operations} in {taken_s:.1f} s{kept}"
    )
    yield ""
    for verdict in report.verdicts():
        yield from _verdict_lines(verdict)
    yield ""
    violated = ", ".join(report.violated)
    yield f"{report.violations_total:,} violations of {violated}" if violated else "everything that can be judged holds"


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    word = {"holds": "ok", "violated": f"{verdict.violations:,} WRONG", "not_judged": "-"}[verdict.verdict]
    remark = f" ({verdict.remark})" if verdict.remark else ""
    yield f"{verdict.id:<4} {word:<8} {verdict.statement}{remark}"
    for violation in verdict.first:
        yield f"       {violation.text}"
    if verdict.violations > len(verdict.first):
        yield f"       … and {verdict.violations - len(verdict.first):,} more"


def _print_lines(lines: Iterator[str]) -> None:
    for line in lines:
        print(line)


def _print_document(document: object, form: str) -> None:
    print(json.dumps(document) if form == "json" else yaml.safe_dump(document, sort_keys=False), end="")
    if form == "json":
        print()


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
