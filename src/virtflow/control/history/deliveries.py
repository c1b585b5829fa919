"""What receivers of webhooks are owed, beside the log: I11, I12."""

from collections.abc import Callable

from virtflow.control.history.report import Report
from virtflow.control.history.tables import Tables
from virtflow.model.webhook import outlet_name
from virtflow.store.contract import Moment

_WAITING = 0


async def check_deliveries(
    moment: Moment, tables: Tables, report: Report, progress: Callable[[str, int], None], *, at_rest: bool
) -> None:
    newest, count = tables.counters["event"], 0
    async for rows in moment.bare_rows("deliveries"):
        for key, seq, state, line in rows:
            _, is_on = tables.outlets.get(outlet_name(line), (0, True))
            if seq > newest:
                report.add("I12", f"{line} is told of event {seq}, the last is {newest}", id=bytes(key).hex())
            elif at_rest and state == _WAITING and is_on:
                report.add("I11", f"{line} was not told of event {seq} yet", id=bytes(key).hex())
        count += len(rows)
        progress("deliveries", count)
