"""The tables as columns: everything but the log, as one commit left it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from virtflow.control.history.hosts import HostRow
from virtflow.control.history.keys import KEY_BYTES, KeyBook, Keys, digest, key_array
from virtflow.control.history.room import Amounts
from virtflow.store.contract import Moment

Numbers = NDArray[np.int64]

#: The built-in dimensions in the order of their columns; the custom ones follow by their slots.
_BUILT_IN = ("cpu", "memory", "disk", "gpu", "vms")
_WIDTH = 13
#: Where a number is missing.
NONE = -1

_amounts = msgspec.json.Decoder(Amounts).decode


class _ShapeBody(msgspec.Struct, gc=False):
    wants: list[tuple[str, int]]


_shape = msgspec.json.Decoder(_ShapeBody).decode


@dataclass(frozen=True, slots=True)
class Room:
    """One line of the ledger."""

    instances: int
    is_shrunk: bool
    used: Amounts
    limit: Amounts


@dataclass(frozen=True, slots=True)
class Tasks:
    """In the order of `keys`."""

    keys: Keys
    state: Numbers
    #: 0: fails when it finds no host, 1: waits
    when_unplaceable: Numbers
    attempt: Numbers
    version: Numbers
    host: Numbers
    ended_ms: Numbers
    deadline_ms: Numbers


@dataclass(frozen=True, slots=True)
class Vms:
    """In the order of `keys`."""

    keys: Keys
    shape: Numbers
    host: Numbers
    version: Numbers
    fence: Numbers
    _: KW_ONLY
    #: digests of given names; empty where the name follows from the id
    names: Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    counters: dict[str, int]
    #: office -> holder, fence
    #: name -> how far it was told, and whether it is switched on
    outlets: dict[str, tuple[int, bool]]
    pools: dict[str, int]
    #: living hosts by name
    hosts: dict[str, HostRow]
    #: of all hosts, dead ones too
    host_names: dict[int, str]
    rooms: dict[int, Room]
    #: what each shape takes
    shapes: dict[int, dict[str, int]]
    tasks: Tasks
    vms: Vms
    gone: Keys


async def read_tables(moment: Moment, book: KeyBook, progress: Callable[[str, int], None]) -> Tables:
    dimensions = {row[0]: row[1] for row in await _all(moment, "dimensions")}
    names = (*_BUILT_IN, *(dimensions.get(slot, f"slot {slot}") for slot in range(1, _WIDTH - len(_BUILT_IN) + 1)))
    hosts = await _all(moment, "hosts")
    tasks = (await _Columns(7, book).read(moment, "tasks", progress)).in_order()
    vms = (await _Columns(4, book).read(moment, "instances", progress)).in_order()
    gone = (await _Columns(0, book).read(moment, "gone", progress)).in_order()
    return Tables(
        counters=dict(await _all(moment, "counters")),  # type: ignore[arg-type]
        outlets={row[0]: (row[2], bool(row[3])) for row in await _all(moment, "outlets")},
        pools={row[0]: row[1] for row in await _all(moment, "pools")},
        hosts={row[1]: HostRow(row[0], row[3], bool(row[2]), _amounts(row[5])) for row in hosts if row[4] is None},
        host_names={row[0]: row[1] for row in hosts},
        rooms={row[0]: _room(row, names) for row in await _all(moment, "rooms")},
        shapes={row[0]: dict(_shape(row[1]).wants) for row in await _all(moment, "shapes")},
        tasks=Tasks(tasks[0], *tasks[1]),
        vms=Vms(vms[0], *vms[1], names=vms[2]),
        gone=gone[0],
    )


async def _all(moment: Moment, table: str) -> list[Sequence[Any]]:
    return [row async for rows in moment.bare_rows(table) for row in rows]


def _room(row: Sequence[Any], names: Sequence[str]) -> Room:
    used, limit = row[3 : 3 + _WIDTH], row[3 + _WIDTH : 3 + 2 * _WIDTH]
    return Room(
        instances=row[1],
        is_shrunk=bool(row[2]),
        used=dict(zip(names, used, strict=True)),
        limit=dict(zip(names, limit, strict=True)),
    )


class _Columns:
    """Of one table: the ids as keys, and as many numbers as its rows have behind them."""

    def __init__(self, width: int, book: KeyBook) -> None:
        self._width = width
        self._book = book
        self._keys = bytearray()
        self._names = bytearray()
        self._chunks: list[Numbers] = [np.zeros((width, 0), np.int64)]

    async def read(self, moment: Moment, table: str, progress: Callable[[str, int], None]) -> "_Columns":
        async for rows in moment.bare_rows(table):
            columns = list(zip(*rows, strict=True))
            self._keys += b"".join(map(self._book.of_row, columns[0]))
            self._chunks.append(_matrix(columns[1 : 1 + self._width]).reshape(self._width, len(rows)))
            for names in columns[1 + self._width :]:
                self._names += b"".join(map(_digest, names))
            progress(table, len(self._keys) // KEY_BYTES)
        return self

    def in_order(self) -> tuple[Keys, list[Numbers], Keys]:
        """Sorted by key: where ids are longer or shorter, the order of their digests is another."""
        keys = key_array(self._keys)
        order = np.argsort(keys, kind="stable")
        names = key_array(self._names)
        return keys[order], list(np.concatenate(self._chunks, axis=1)[:, order]), names[order] if len(names) else names


def _matrix(columns: Iterable[Sequence[int | None]]) -> Numbers:
    return np.array([[NONE if value is None else value for value in column] for column in columns], np.int64)


def _digest(name: str | None) -> bytes:
    return bytes(KEY_BYTES) if name is None else digest(name.encode())
