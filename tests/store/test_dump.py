"""The file of a backup: what was put in comes out; what was changed, cut or mixed up does not."""

import gzip
import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from virtflow.model.errors import InvalidRequest
from virtflow.store.dump import FORMAT, DamagedBackup, Head, Numbering, Rows, Tail, check_dump, read_dump, write_dump

HEAD = Head(
    format=FORMAT, version=3, program="0.1", database="sqlite", history_id="h", newest_event=7, taken_ms=1
)  # fmt: skip
ROWS = Rows(table="t", columns=("a", "b"), rows=[(1, b"\x00\xff"), (None, "ä"), (2**62, True)])


async def frames(*some: Head | Rows | Numbering) -> AsyncIterator[Head | Rows | Numbering]:
    for one in some:
        yield one


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def written(folder: Path) -> Path:
    file = folder / "backup"
    await write_dump(file, frames(HEAD, ROWS, ROWS, Numbering(last={"t": 9})))
    return file


async def test_what_was_put_in_comes_out(tmp_path: Path) -> None:
    file = await written(tmp_path)

    head, tail = check_dump(file)

    assert (head, tail.rows) == (HEAD, 6)
    assert list(read_dump(file))[:4] == [HEAD, ROWS, ROWS, Numbering(last={"t": 9})]
    assert file.stat().st_mode & 0o777 == 0o600
    assert names_in(tmp_path) == ["backup"]


async def test_the_same_content_makes_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert (await written(tmp_path / "a")).read_bytes() == (await written(tmp_path / "b")).read_bytes()


async def test_a_file_that_exists_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("mine")
    with pytest.raises(FileExistsError):
        await written(tmp_path)
    assert (tmp_path / "backup").read_text() == "mine"


async def test_a_backup_that_was_broken_off_leaves_nothing(tmp_path: Path) -> None:
    async def breaking_off() -> AsyncIterator[Head | Rows | Numbering]:
        yield HEAD
        raise ConnectionError("the database went away")

    with pytest.raises(ConnectionError):
        await write_dump(tmp_path / "backup", breaking_off())

    assert names_in(tmp_path) == []


async def test_every_cut_is_noticed(tmp_path: Path) -> None:
    file = await written(tmp_path)
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(DamagedBackup):
            check_dump(file)


async def test_every_changed_byte_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    file = await written(tmp_path)
    whole, frames_written = file.read_bytes(), list(read_dump(file))
    chance, unnoticed = random.Random(7), 0
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        file.write_bytes(changed)
        try:
            assert list(read_dump(file)) == frames_written
        except DamagedBackup:
            continue
        unnoticed += 1
    assert unnoticed < 12  # the time and the system in the head of gzip, and bits that fill up its last byte


def packed(file: Path, *some: object) -> Path:
    with gzip.open(file, "wb") as out:
        for one in some:
            body = msgspec.msgpack.encode(one)
            out.write(len(body).to_bytes(4, "big") + body)
    return file


def tail(*some: object, rows: int = 0) -> Tail:
    digest = hashlib.sha256(b"".join(map(msgspec.msgpack.encode, some))).digest()
    return Tail(rows=rows, sha256=digest)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ((), "ends in the middle"),
        ((HEAD,), "ends in the middle"),
        ((ROWS, tail(ROWS, rows=3)), "out of order"),
        ((HEAD, HEAD, tail(HEAD, HEAD)), "out of order"),
        ((HEAD, tail(HEAD), ROWS), "out of order"),
        ((HEAD, ROWS, tail(HEAD, rows=3)), "digest"),
        ((HEAD, ROWS, tail(HEAD, ROWS, rows=2)), "digest"),
        (({"type": "head"},), "cannot be read"),
        ((msgspec.structs.replace(HEAD, format="virtflow backup 2"),), "this program reads"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(tmp_path: Path, parts: tuple[object, ...], says: str) -> None:
    with pytest.raises(DamagedBackup, match=says) as caught:
        check_dump(packed(tmp_path / "backup", *parts))
    assert isinstance(caught.value, InvalidRequest)
    assert caught.value.remedy


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip at all", gzip.compress(b"\xff\xff\xff\xff"), gzip.compress(b"\x00")],
    ids=["empty", "text", "huge", "short"],
)
def test_another_file_is_no_backup(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "backup"
    file.write_bytes(content)
    with pytest.raises(DamagedBackup):
        check_dump(file)
