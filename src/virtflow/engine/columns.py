"""The fleet as a structure of arrays: one row for each host, one column for each fact."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.ma  # `np.unique` loads it when first called: in the middle of a request, where it may fail
from numpy.typing import NDArray

from virtflow.model.host import Host
from virtflow.model.resources import DIMENSIONS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: a column as a memoryview: one number is read three times as fast through it as through the array
View = Any

_Word = TypeVar("_Word", bound=Hashable)
Label = tuple[str, str]

#: one value for each host
FACTS = ("ids", "pool", "zone", "label_set", "dedicated", "schedulable", "carries_virtflow", "instances")
#: one value for each dimension and host: [dimension, row]
AMOUNTS = ("total", "limit", "room", "busy")
#: what filters that do not look at room look at
ATTRIBUTES = ("pool", "zone", "label_set", "dedicated", "schedulable", "carries_virtflow")

NOT_THERE = -1


class Numbering(Generic[_Word]):
    """Words as small numbers, so that a column can hold them."""

    __slots__ = ("_numbers", "words")

    def __init__(self, words: Iterable[_Word] = ()) -> None:
        self.words = list(words)
        self._numbers = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._numbers

    def add(self, word: _Word) -> int:
        number = self._numbers.setdefault(word, len(self.words))
        if number == len(self.words):
            self.words.append(word)
        return number

    def find(self, word: _Word) -> int:
        return self._numbers.get(word, NOT_THERE)


@dataclass(slots=True)
class Vocabulary:
    """The words behind the numbers in the columns."""

    dimensions: Numbering[str] = field(default_factory=lambda: Numbering(DIMENSIONS))
    pools: Numbering[str] = field(default_factory=Numbering)
    zones: Numbering[str] = field(default_factory=Numbering)
    label_sets: Numbering[tuple[Label, ...]] = field(default_factory=Numbering)
    #: pools that take no new work
    closed_pools: frozenset[str] = frozenset()

    def copy(self) -> "Vocabulary":
        return Vocabulary(
            dimensions=Numbering(self.dimensions.words),
            pools=Numbering(self.pools.words),
            zones=Numbering(self.zones.words),
            label_sets=Numbering(self.label_sets.words),
            closed_pools=self.closed_pools,
        )


@dataclass(slots=True, eq=False)
class Columns:
    """Rows stand in the order of names, so that a row number is also the rank of a name."""

    vocabulary: Vocabulary
    ids: Ints
    pool: NDArray[np.int32]
    zone: NDArray[np.int32]
    label_set: NDArray[np.int32]
    dedicated: Mask
    #: neither cordoned nor missing
    schedulable: Mask
    carries_virtflow: Mask
    instances: Ints
    #: capacity x ratio: what utilisation is measured against
    total: Ints
    #: what may be given away in all
    limit: Ints
    #: what may still be given away; negative on a host that was shrunk below its use
    room: Ints
    #: share of the total that is not free, kept beside `room` because most scores read it
    busy: Floats

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, rows: Ints) -> "Columns":
        """A copy of these rows alone, in this order."""
        facts = {name: getattr(self, name)[rows] for name in FACTS}
        # `take` keeps the numbers of one dimension side by side; an index would lay out host by host, and slow all down
        amounts = {name: getattr(self, name).take(rows, axis=1) for name in AMOUNTS}
        return Columns(vocabulary=self.vocabulary, **facts, **amounts)

    def copy(self, vocabulary: Vocabulary) -> "Columns":
        return Columns(vocabulary=vocabulary, **{name: getattr(self, name).copy() for name in (*FACTS, *AMOUNTS)})

    def followed_by(self, other: "Columns") -> "Columns":
        facts = {name: np.concatenate((getattr(self, name), getattr(other, name))) for name in FACTS}
        amounts = {name: np.concatenate((getattr(self, name), getattr(other, name)), axis=1) for name in AMOUNTS}
        return Columns(vocabulary=self.vocabulary, **facts, **amounts)

    def overwrite(self, rows: Ints, other: "Columns") -> bool:
        """Put these values at `rows`; says whether an attribute changed, or only ids and room."""
        changed = any(not np.array_equal(getattr(self, name)[rows], getattr(other, name)) for name in ATTRIBUTES)
        for name in FACTS:
            getattr(self, name)[rows] = getattr(other, name)
        for name in AMOUNTS:
            getattr(self, name)[:, rows] = getattr(other, name)
        return changed

    def with_dimensions(self, count: int) -> "Columns":
        """Room for more dimensions: nobody has anything of the new ones."""
        missing = count - len(self.total)
        facts = {name: getattr(self, name) for name in FACTS}
        amounts = {name: np.pad(getattr(self, name), ((0, missing), (0, 0))) for name in AMOUNTS}
        return Columns(vocabulary=self.vocabulary, **facts, **amounts)

    def scored(self, name: str, dimension: int) -> Ints | Floats:
        """The column that a score reads."""
        if name == "instances":
            return self.instances
        column: Ints | Floats = (self.busy if name == "busy" else self.room)[dimension]
        return column

    def room_of(self, dimension: str) -> Ints:
        """Free per host, never below zero: an over-full host has no room, not endless room."""
        number = self.vocabulary.dimensions.find(dimension)
        room: Ints = self.room[number] if number != NOT_THERE else np.zeros(len(self), np.int64)
        return np.maximum(room, 0)


def view(column: NDArray[Any]) -> View:
    return column.data


def busy_share(total: Ints, room: Ints) -> Floats:
    """Utilisation; nothing of something is not busy. One division, so that one host alone computes the same bits."""
    return np.asarray((total - room) / np.maximum(total, 1), dtype=np.float64)


def columns_of(hosts: Sequence[Host], vocabulary: Vocabulary) -> Columns:
    """Hosts as columns, in the order given. Words not known yet are added."""
    dimensions = vocabulary.dimensions.words
    total = _amounts([host.total for host in hosts], dimensions)
    limit = _amounts([host.allocatable for host in hosts], dimensions)
    room = limit - _amounts([host.used for host in hosts], dimensions)
    return Columns(
        vocabulary=vocabulary,
        ids=np.array([host.id for host in hosts], np.int64),
        pool=np.array([vocabulary.pools.add(host.spec.pool) for host in hosts], np.int32),
        zone=np.array([vocabulary.zones.add(host.spec.zone) for host in hosts], np.int32),
        label_set=np.array([_label_set(host, vocabulary) for host in hosts], np.int32),
        dedicated=np.array([host.spec.dedicated for host in hosts], np.bool_),
        schedulable=np.array([host.is_in_service for host in hosts], np.bool_),
        carries_virtflow=np.array([host.carries_virtflow for host in hosts], np.bool_),
        instances=np.array([host.instances for host in hosts], np.int64),
        total=total,
        limit=limit,
        room=room,
        busy=busy_share(total, room),
    )


def no_columns(vocabulary: Vocabulary) -> Columns:
    return columns_of((), vocabulary)


def _amounts(resources: Sequence[Mapping[str, int]], dimensions: Sequence[str]) -> Ints:
    table = [[amounts.get(name, 0) for amounts in resources] for name in dimensions]
    return np.array(table, np.int64).reshape(len(dimensions), len(resources))


def _label_set(host: Host, vocabulary: Vocabulary) -> int:
    labels = host.spec.labels
    return vocabulary.label_sets.add(tuple(sorted(labels.items())) if labels else ())
