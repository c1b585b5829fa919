"""A knock carries ids and nothing else; what is none is refused whole, with the reason."""

import pytest

from virtflow.model.knock import Malformed, read_knock, write_knock
from virtflow.model.limits import IDS_PER_MESSAGE_MAX, MESSAGE_BYTES_MAX


def test_ids_of_both_kinds_come_back_as_they_were_written() -> None:
    ids = [bytes(range(16)), b"\x00task-of-a-client", b"\xff" * 16]
    body = write_knock(ids)
    assert body == (
        b'{"tasks":["00010203-0405-0607-0809-0a0b0c0d0e0f","task-of-a-client","ffffffff-ffff-ffff-ffff-ffffffffffff"]}'
    )
    assert read_knock(body) == ids


def test_the_largest_knock_of_the_longest_ids_is_no_larger_than_allowed() -> None:
    ids = [b"\x00" + f"{n:064d}".encode() for n in range(IDS_PER_MESSAGE_MAX)]
    body = write_knock(ids)
    assert len(body) <= MESSAGE_BYTES_MAX
    assert read_knock(body) == ids


@pytest.mark.parametrize(
    ("body", "because"),
    [
        (b"", "truncated"),
        (b"\xff\xfe", "malformed"),
        (b"[]", "Expected `object`"),
        (b"{}", "missing required field `tasks`"),
        (b'{"tasks":[]}', "0 ids"),
        (b'{"tasks":["a"],"resources":{"cpu":1}}', "unknown field `resources`"),
        (b'{"tasks":[7]}', "Expected `str`"),
        (b'{"tasks":["\\ud800"]}', "tasks"),
        (b'{"tasks":["no id at all!"]}', "not an id"),
        (b'{"tasks":[' + b",".join([b'"a"'] * (IDS_PER_MESSAGE_MAX + 1)) + b"]}", f"{IDS_PER_MESSAGE_MAX + 1} ids"),
        (b" " * (MESSAGE_BYTES_MAX + 1), f"{MESSAGE_BYTES_MAX + 1} bytes"),
        (b"[" * 100_000, "tasks"),
    ],
)
def test_what_is_no_knock_is_refused_with_the_reason(body: bytes, because: str) -> None:
    with pytest.raises(Malformed, match=because):
        read_knock(body)
