"""The file of a backup: frames of MessagePack in a gzip stream, the same from both databases and for both.

A head that says whose it is; rows, table by table; where each table's numbering stands; a tail with the digest of
everything before it. What does not end with its tail is no backup.
"""

import gzip
import hashlib
import os
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from virtflow.model.errors import InvalidRequest

FORMAT = "virtflow backup 1"
#: rows of a frame: a frame is held in memory, a table is not
ROWS_PER_FRAME = 2_000
FRAME_BYTES_MAX = 256 * 2**20
#: above this the processor is slower than any disk
_LEVEL = 1
_LENGTH_BYTES = 4


class Head(msgspec.Struct, frozen=True, kw_only=True, tag="head"):
    format: str
    #: of the tables
    version: int
    #: of the program that took it
    program: str
    database: str
    history_id: str
    newest_event: int
    taken_ms: int


class Rows(msgspec.Struct, frozen=True, kw_only=True, tag="rows"):
    table: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Numbering(msgspec.Struct, frozen=True, kw_only=True, tag="numbering"):
    """Table -> the last number it gave, which may be that of a row that is gone."""

    last: Mapping[str, int]


class Tail(msgspec.Struct, frozen=True, kw_only=True, tag="tail"):
    rows: int
    sha256: bytes


Frame = Head | Rows | Numbering | Tail
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Frame).decode


class DamagedBackup(InvalidRequest):
    code = "damaged_backup"

    def __init__(self, file: Path, cause: str) -> None:
        super().__init__(f"{file} cannot be restored: {cause}", remedy="take another backup of the same database")


async def write_dump(file: Path, frames: AsyncIterator[Head | Rows | Numbering]) -> Tail:
    """Whole or not at all; readable to its owner alone, for it holds what the database holds."""
    unfinished = file.with_name(file.name + ".part")
    digest, rows = hashlib.sha256(), 0
    try:
        with _created(unfinished) as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=_LEVEL, filename="", mtime=0) as packed:
                async for frame in frames:
                    rows += len(frame.rows) if isinstance(frame, Rows) else 0
                    digest.update(_put(packed, frame))
                tail = Tail(rows=rows, sha256=digest.digest())
                _put(packed, tail)
            raw.flush()
            os.fsync(raw.fileno())
        os.link(unfinished, file)  # unlike a rename this never replaces anything
    finally:
        unfinished.unlink(missing_ok=True)
    _sync_folder(file.parent)
    return tail


def _created(file: Path) -> Any:
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")


def _put(packed: gzip.GzipFile, frame: Frame) -> bytes:
    body = _encode(frame)
    packed.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
    return body


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_dump(file: Path) -> Iterator[Frame]:
    """Head first, tail last. DamagedBackup as soon as something is not as it was written."""
    digest, rows, previous = hashlib.sha256(), 0, None
    for body in _bodies(file):
        try:
            frame = _decode(body)
        except (msgspec.MsgspecError, ValueError) as error:
            raise DamagedBackup(file, f"a part of it cannot be read ({error})") from error
        if (previous is None) != isinstance(frame, Head) or isinstance(previous, Tail):
            raise DamagedBackup(file, "its parts are out of order")
        if isinstance(frame, Head) and frame.format != FORMAT:
            raise DamagedBackup(file, f"its format is {frame.format!r}, this program reads {FORMAT!r}")
        if isinstance(frame, Tail) and (frame.rows, frame.sha256) != (rows, digest.digest()):
            raise DamagedBackup(file, "its content is not what its digest says")
        digest.update(body)
        rows += len(frame.rows) if isinstance(frame, Rows) else 0
        previous = frame
        yield frame
    if not isinstance(previous, Tail):
        raise DamagedBackup(file, "it ends in the middle")


def _bodies(file: Path) -> Iterator[bytes]:
    try:
        with gzip.open(file, "rb") as packed:
            while length := packed.read(_LENGTH_BYTES):
                size = int.from_bytes(length, "big")
                if len(length) < _LENGTH_BYTES or size > FRAME_BYTES_MAX:
                    raise DamagedBackup(file, "it is no backup of virtflow")
                body = packed.read(size)
                if len(body) < size:
                    raise DamagedBackup(file, "it ends in the middle")
                yield body
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedBackup(file, f"it is no whole gzip file ({error})") from error


def check_dump(file: Path) -> tuple[Head, Tail]:
    """Reads all of it, so that nothing is begun that cannot be ended."""
    head: Head | None = None
    tail: Tail | None = None
    for frame in read_dump(file):
        if isinstance(frame, Head):
            head = frame
        elif isinstance(frame, Tail):
            tail = frame
    if head is None or tail is None:
        raise DamagedBackup(file, "it is empty")
    return head, tail
