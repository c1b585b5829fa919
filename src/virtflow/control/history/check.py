"""The walk of a check: the tables as one commit left them, the log beside them, and what clients remember."""

from collections.abc import Callable, Sequence
from pathlib import Path

from virtflow.control.history.answers import check_answers
from virtflow.control.history.clients import Clients, Operation, read_histories
from virtflow.control.history.deliveries import check_deliveries
from virtflow.control.history.hosts import Objects
from virtflow.control.history.invariants import Source
from virtflow.control.history.keys import KeyBook
from virtflow.control.history.leaders import Leaders
from virtflow.control.history.log import read_log
from virtflow.control.history.moves import Moves
from virtflow.control.history.report import Report
from virtflow.control.history.room import Rooms, Sums
from virtflow.control.history.rows import Rows
from virtflow.control.history.tables import Tables, read_tables
from virtflow.model.limits import RETRIES_MAX
from virtflow.store.contract import Moment, Store

Progress = Callable[[str, int], None]


def _silent(what: str, count: int) -> None:
    pass


async def check_history(
    store: Store,
    *,
    clients: Sequence[Path] = (),
    at_rest: bool = False,
    tries_max: int = RETRIES_MAX + 1,
    progress: Progress = _silent,
) -> Report:
    """Everything that can be judged. `at_rest`: nobody is at work, so that what is not finished never will be."""
    report = Report()
    operations = read_histories(clients, progress)  # first: a file that cannot be read costs no waiting
    async with store.moment() as moment:
        await _check(moment, report, tries_max, progress, at_rest=at_rest, operations=operations)
    return report


async def _check(
    moment: Moment,
    report: Report,
    tries_max: int,
    progress: Progress,
    *,
    at_rest: bool,
    operations: Sequence[Operation],
) -> None:
    book = KeyBook()
    tables = await read_tables(moment, book, progress)
    report.hosts, report.vms, report.tasks = len(tables.hosts), len(tables.vms.keys), len(tables.tasks.keys)
    report.oldest_event, report.newest_event = tables.counters["oldest_event"], tables.counters["event"]
    rows = Rows(tables, report, book)
    newest_ms = await _replay(moment, tables, rows, book, progress)
    rows.check_ledger()
    rows.check_each_other()
    rows.check_bounds(tries_max=tries_max, now_ms=newest_ms)
    rows.check_outlets()
    await check_answers(moment, tables, report, book, progress)
    await check_deliveries(moment, tables, report, progress, at_rest=at_rest)
    if at_rest:
        report.sources.add(Source.REST)
        rows.check_rest()
    if operations:
        report.sources.add(Source.CLIENTS)
        Clients(operations, tables, report, book).check()


async def _replay(moment: Moment, tables: Tables, rows: Rows, book: KeyBook, progress: Progress) -> int:
    """Reads the log once; twice when its beginning is no longer kept. Returns the time of the newest event."""
    report = rows.report
    rooms = Rooms(report) if report.is_whole else await _rooms_of_a_cut_log(moment, tables, report, progress)
    moves, objects = Moves(report, book), Objects(report)
    leaders = Leaders(report, newest=tables.counters["fence"])
    newest_ms = 0
    async for commit in read_log(moment, report, progress):
        for follower in (rooms, moves, objects, leaders):
            follower.take(commit)
        newest_ms = max(newest_ms, commit.lines[-1].at_ms if commit.lines else 0)
    rows.compare(moves.judge())
    objects.compare_hosts(tables.hosts)
    objects.compare_pools(tables.pools)
    if report.is_whole:
        rows.check_sums(rooms.used)
    return newest_ms


async def _rooms_of_a_cut_log(moment: Moment, tables: Tables, report: Report, progress: Progress) -> Rooms:
    """What was taken before the oldest event is what is taken now, without what came since."""
    sums = Sums()
    ignored = Report(oldest_event=report.oldest_event, newest_event=report.newest_event)
    async for commit in read_log(moment, ignored, lambda what, count: progress(f"{what}, first reading", count)):
        sums.take(commit)
    used = {name: tables.rooms[host.id].used for name, host in tables.hosts.items() if host.id in tables.rooms}
    limits = {name: host.allocatable for name, host in tables.hosts.items() if name not in sums.told}
    return Rooms(report, used=sums.beginning(used), limits=dict(limits))
