"""The bare columns that a checker reads: of every table, in the order of its key, without any record made of them."""

from collections.abc import AsyncIterator, Mapping, Sequence

from virtflow.store.session import Row, Snapshots

#: What can be read, and what stands before the first key of each.
FIRST_KEYS: Mapping[str, object] = {
    "history_counters": "",
    "history_leases": "",
    "history_outlets": "",
    "history_pools": "",
    "history_dimensions": -1,
    "history_hosts": -1,
    "history_rooms": -1,
    "history_shapes": -1,
    "history_instances": b"",
    "history_tasks": b"",
    "history_gone": b"",
    "history_answers": -1,
    "history_deliveries": b"",
    "history_log": -1,
}
#: Rows that are short; those of the log hold up to a thousand events each.
ROWS_AT_ONCE, LOG_ROWS_AT_ONCE = 5_000, 64
#: When the rows of the log turn out to be short, so many bytes are read at once.
LOG_BYTES_AT_ONCE = 8 * 2**20


class HistoryReads:
    _snapshot: Snapshots

    async def bare_rows(self, table: str) -> AsyncIterator[Sequence[Row]]:
        statement = f"history_{table}"
        key, is_log = FIRST_KEYS[statement], table == "log"
        limit = LOG_ROWS_AT_ONCE if is_log else ROWS_AT_ONCE
        async with self._snapshot() as reader:
            while rows := await reader.rows(statement, key, limit):
                yield rows
                key = rows[-1][0]
                limit = _fitting(rows) if is_log else limit


def _fitting(rows: Sequence[Row]) -> int:
    bytes_each = sum(len(row[-1]) for row in rows) // len(rows) + 1
    return max(LOG_ROWS_AT_ONCE, min(ROWS_AT_ONCE, LOG_BYTES_AT_ONCE // bytes_each))
