"""What was answered to Idempotency-Keys, beside the tasks it names: I15, I16."""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from virtflow.control.history.keys import KeyBook, digest, key_array, places_of
from virtflow.control.history.report import SHOWN_MAX, Report
from virtflow.control.history.tables import Tables
from virtflow.store.contract import Moment

_ACCEPTED = 202


class _Item(msgspec.Struct, gc=False):
    task_id: str = ""


class _Body(msgspec.Struct, gc=False):
    task_id: str = ""
    items: list[_Item] = []


_decode = msgspec.json.Decoder(_Body).decode


async def check_answers(
    moment: Moment, tables: Tables, report: Report, book: KeyBook, progress: Callable[[str, int], None]
) -> None:
    keys, tasks = bytearray(), bytearray()
    async for rows in moment.bare_rows("answers"):
        for _, principal, key, status, body in rows:
            keys += digest(f"{principal}\0{key}".encode())
            for task_id in _tasks_of(status, body, key, report):
                tasks += book.of_text(task_id)
        report.answers += len(rows)
        progress("answers", report.answers)
    _tell_repeated(keys, report, lambda _: "an Idempotency-Key has two answers")
    _tell_repeated(tasks, report, lambda key: f"task {book.text(key)} stands in the answers to two Idempotency-Keys")
    answered = key_array(tasks)
    for key in answered[~places_of(answered, tables.tasks.keys)[1]]:
        report.add("I16", f"task {book.text(key)} was acknowledged and is not there", id=book.text(key))


def _tasks_of(status: int, body: bytes, key: str, report: Report) -> Iterator[str]:
    if status != _ACCEPTED:
        return
    try:
        answer = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        report.add("I16", f"the answer to Idempotency-Key {key} cannot be read: {error}", id=key)
        return
    yield from filter(None, (answer.task_id, *(item.task_id for item in answer.items)))


def _tell_repeated(joined: bytearray, report: Report, text: Callable[[bytes], str]) -> None:
    keys = np.sort(key_array(joined))
    again = np.flatnonzero(keys[1:] == keys[:-1])
    report.add_all("I15", len(again), [(text(bytes(keys[place])), 0) for place in again[:SHOWN_MAX]])
