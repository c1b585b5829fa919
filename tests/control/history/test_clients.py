"""What clients wrote down, beside the database: each lie of the system is told under its number."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.control.history.conftest import Database

from virtflow.control.history import Report
from virtflow.model.errors import InvalidRequest

_ops = itertools.count(1)


def operation(
    began: int, ended: int | None, do: str, name: str, *, phase: str = "ok", kind: str = "vm", key: str = "", **end: Any
) -> list[dict[str, Any]]:
    """Both lines of one; an operation that never ended has one."""
    op = {"client": "c1", "op": next(_ops)}
    lines = [{"at": began, **op, "phase": "call", "do": do, "kind": kind, "name": name, "key": key}]
    return lines if ended is None else [*lines, {"at": ended, **op, "phase": phase, **end}]


def write(file: Path, *operations: list[dict[str, Any]]) -> Path:
    lines = sorted((line for one in operations for line in one), key=lambda line: line["at"])
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return file


async def judged(database: Database, tmp_path: Path, *operations: list[dict[str, Any]]) -> list[str]:
    report = await database.checked(clients=[write(tmp_path / "c1.jsonl", *operations)])
    assert report.operations == len(operations)
    return report.violated


async def test_a_history_that_tells_the_truth_holds(database: Database, tmp_path: Path) -> None:
    found = await judged(
        database,
        tmp_path,
        operation(1, 5, "create", "vm-1", key="k1", id=await database.task_id("vm-1")),
        operation(6, 7, "read", "vm-1", version=1),
        operation(8, 9, "create", "vm-0", phase="info", key="k2"),
        operation(10, 11, "create", "vm-0", key="k2", id=await database.task_id("vm-0")),
        operation(12, 13, "delete", "vm-0"),
        operation(14, 15, "read", "vm-0", absent=True),
        operation(16, 17, "create", "refused", phase="fail"),
        operation(18, 30, "change", "bm-2", kind="host", version=2),
        operation(20, 25, "read", "bm-2", kind="host", version=1),
        operation(31, 32, "read", "bm-2", kind="host", version=2),
        operation(33, None, "create", "unfinished"),
    )
    assert found == []


async def test_two_answers_to_one_key_are_seen(database: Database, tmp_path: Path) -> None:
    ids = [await database.task_id("vm-1"), await database.task_id("vm-2")]
    calls = (operation(number, number + 1, "create", "vm-1", key="k", id=one) for number, one in enumerate(ids))
    assert await judged(database, tmp_path, *calls) == ["I15"]


LOST = operation(1, 2, "create", "lost", id="00000000-0000-4000-8000-00000000000f")
LIES: dict[str, tuple[str, Sequence[list[dict[str, Any]]]]] = {
    "a refused VM is there": ("I16", [operation(1, 2, "create", "vm-1", phase="fail")]),
    "a deleted VM is there": ("I16", [operation(1, 2, "create", "vm-1"), operation(3, 4, "delete", "vm-1")]),
    "an acknowledged VM is not found": ("I17", [
        operation(1, 2, "create", "vm-1"), operation(3, 4, "read", "vm-1", absent=True),
    ]),
    "a deleted VM is found": ("I17", [
        operation(1, 2, "create", "vm-0"), operation(3, 4, "delete", "vm-0"), operation(5, 6, "read", "vm-0"),
    ]),
    "a read goes back in time": ("I17", [
        operation(1, 2, "change", "bm-2", kind="host", version=4),
        operation(3, 4, "read", "bm-2", kind="host", version=3),
    ]),
    "two changes get one version": ("I17", [
        operation(1, 2, "change", "bm-2", kind="host", version=4),
        operation(3, 4, "change", "bm-2", kind="host", version=4),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_is_told_under_its_number(database: Database, tmp_path: Path, lie: str) -> None:
    invariant, operations = LIES[lie]
    assert await judged(database, tmp_path, *operations) == [invariant]


async def test_an_acknowledged_vm_that_was_lost_is_told(database: Database, tmp_path: Path) -> None:
    report: Report = await database.checked(clients=[write(tmp_path / "c1.jsonl", LOST)])
    assert report.violated == ["I16"]
    texts = [violation.text for violation in report.verdicts()[15].first]
    assert any("there is no such task" in text for text in texts)
    assert any("nobody deleted it, and it is not there" in text for text in texts)


async def test_a_version_that_overlaps_another_may_come_in_any_order(database: Database, tmp_path: Path) -> None:
    found = await judged(
        database,
        tmp_path,
        operation(1, 10, "change", "bm-2", kind="host", version=5),
        operation(2, 9, "change", "bm-2", kind="host", version=4),
    )
    assert found == []


async def test_half_a_line_of_a_client_that_was_killed_is_nothing(database: Database, tmp_path: Path) -> None:
    file = write(tmp_path / "c1.jsonl", operation(1, None, "create", "vm-1"))
    file.write_bytes(file.read_bytes() + b'{"at": 2, "cli')
    assert (await database.checked(clients=[file])).operations == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"not json\n", "c1.jsonl:1"),
        (b'{"at": 1, "client": "c", "op": 1, "phase": "perhaps"}\n', "perhaps"),
        (b'{"at": 1, "client": "c", "op": 1, "phase": "ok"}\n', "ends without a call"),
        (b'{"at": 1, "client": "c", "op": 1, "phase": "call"}\n' * 2, "is called twice"),
        (None, "No such file"),
    ],
)
async def test_a_file_that_cannot_be_read_is_refused_with_its_place(
    database: Database, tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    file = tmp_path / "c1.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidRequest, match=complaint):
        await database.checked(clients=[file])
