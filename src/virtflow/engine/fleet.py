"""The fleet that decisions are made on: hosts, their room, and what changed since somebody last looked.

Rows stand in the order of names, so the first of equal rows is the one with the lowest name. Whatever order hosts are
put in, the same fleet comes out.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from virtflow.engine import strategies
from virtflow.engine.columns import (
    NOT_THERE,
    Columns,
    Ints,
    Numbering,
    View,
    Vocabulary,
    busy_share,
    columns_of,
    no_columns,
    view,
)
from virtflow.engine.strategies.strategy import Strategy
from virtflow.engine.wanted import Wanted
from virtflow.model.errors import InvalidRequest, NotFound
from virtflow.model.host import Host
from virtflow.model.limits import CUSTOM_DIMENSIONS_MAX
from virtflow.model.pool import Pool
from virtflow.model.resources import DIMENSIONS, plus
from virtflow.model.shape import Shape

#: Changes remembered for those who catch up; who lags further behind looks at every host again.
CHANGES_KEPT_MAX = 65_536

Weights = Mapping[str, Mapping[str, float]]


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the fleet knows of one host, taken out of the columns."""

    id: int
    name: str
    pool: str
    zone: str
    labels: dict[str, str]
    dedicated: bool
    schedulable: bool
    carries_virtflow: bool
    instances: int
    total: dict[str, int]
    allocatable: dict[str, int]
    used: dict[str, int]

    @property
    def free(self) -> dict[str, int]:
        return {name: max(0, amount - self.used.get(name, 0)) for name, amount in self.allocatable.items()}


class Fleet:
    """Mutable, for one owner. `fork` gives a copy to try things on."""

    #: how many changes of rows there were ever: who catches up remembers this
    changes_end: int
    #: rows whose attributes changed, oldest first
    attribute_changes: "array[int]"
    #: what deciders remember between batches; emptied whenever it may no longer hold
    memory: dict[str, Any]
    room_views: list[View]
    total_views: list[View]
    busy_views: list[View]
    instances_view: View
    ids_view: View

    def __init__(
        self, default_strategy: str = "least_loaded", *, weights: Weights | None = None, compiled: bool | None = None
    ) -> None:
        """`weights`: strategy -> weight -> value, for the installation.

        `compiled`: None = machine code for large batches once it is warm, False = never, True = always.
        """
        self.default_strategy = strategies.get(default_strategy).name
        self.weights = {name: dict(given) for name, given in (weights or {}).items()}
        for name, given in self.weights.items():
            strategies.weigh(strategies.get(name), given)
        self.compiled = compiled
        self.names: list[str] = []
        self.columns = no_columns(Vocabulary())
        self._pools: dict[str, Pool] = {}
        self._ids_sorted: tuple[View, View] | None = None
        self._forget_positions()

    def emptied(self) -> "Fleet":
        """A new fleet without hosts and pools, set up like this one."""
        return Fleet(self.default_strategy, weights=self.weights, compiled=self.compiled)

    def fork(self) -> "Fleet":
        """A copy to try things on: nothing done to it is seen here."""
        twin = self.emptied()
        twin.names = self.names  # replaced when hosts come and go, never changed
        twin.columns = self.columns.copy(self.columns.vocabulary.copy())
        twin._pools = dict(self._pools)
        twin._forget_positions()
        return twin

    # ── hosts ─────────────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.row(name) != NOT_THERE

    def put_host(self, host: Host) -> None:
        """Insert or replace."""
        self.put_hosts((host,))

    def put_hosts(self, hosts: Iterable[Host]) -> None:
        """Insert or replace many at once; of two with one name the last holds."""
        by_name = {host.name: host for host in hosts}
        if not by_name:
            return
        self._learn_dimensions(by_name.values())
        known = {name: row for name in by_name if (row := self.row(name)) != NOT_THERE}
        if known:
            self._replace(np.array(list(known.values()), np.int64), [by_name[name] for name in known])
        if len(known) < len(by_name):
            self._insert([host for name, host in by_name.items() if name not in known])

    def remove_host(self, name: str) -> bool:
        """Says whether it was there."""
        row = self.row(name)
        if row == NOT_THERE:
            return False
        self.names = self.names[:row] + self.names[row + 1 :]
        self._set_columns(self.columns.at(np.delete(np.arange(len(self.columns)), row)))
        return True

    def set_room(self, name: str, used: Mapping[str, int], instances: int) -> bool:
        """What the database says is taken there; says whether the host is known."""
        row = self.row(name)
        if row == NOT_THERE:
            return False
        columns = self.columns
        taken = np.array([used.get(dimension, 0) for dimension in self.dimensions], np.int64)
        columns.room[:, row] = columns.limit[:, row] - taken
        columns.busy[:, row] = busy_share(columns.total[:, row], columns.room[:, row])
        columns.instances[row] = instances
        self.note_changes((row,))
        return True

    def change_room(self, name: str, taken: Mapping[str, int], instances: int) -> bool:
        """So much more (or less) is taken there; says whether the host is known."""
        room = self.room(name)
        if room is None:
            return False
        used, before = room
        return self.set_room(name, plus(used, taken), before + instances)

    def take(self, host_id: int, shape: Shape) -> bool:
        """One more instance is there; says whether the host is known."""
        row = self.row_of_id(host_id)
        if row != NOT_THERE:
            Wanted(self, shape).take(row)
            self.note_changes((row,))
        return row != NOT_THERE

    def give(self, host_id: int, shape: Shape) -> bool:
        """One instance less is there; says whether the host is known."""
        row = self.row_of_id(host_id)
        if row != NOT_THERE:
            Wanted(self, shape).give(row)
            self.note_changes((row,))
        return row != NOT_THERE

    def room(self, name: str) -> tuple[dict[str, int], int] | None:
        """What is taken there and by how many instances; None for a host not known."""
        row = self.row(name)
        if row == NOT_THERE:
            return None
        return self._amounts(self.columns.limit[:, row] - self.columns.room[:, row]), int(self.columns.instances[row])

    def host(self, name: str) -> HostRow:
        row = self.row(name)
        if row == NOT_THERE:
            raise NotFound(f"no host is called {name!r}")
        return self.host_at(row)

    def host_by_id(self, host_id: int) -> HostRow:
        row = self.row_of_id(host_id)
        if row == NOT_THERE:
            raise NotFound(f"no host has the id {host_id}")
        return self.host_at(row)

    def host_at(self, row: int) -> HostRow:
        columns, words = self.columns, self.columns.vocabulary
        return HostRow(
            id=int(columns.ids[row]),
            name=self.names[row],
            pool=words.pools.words[columns.pool[row]],
            zone=words.zones.words[columns.zone[row]],
            labels=dict(words.label_sets.words[columns.label_set[row]]),
            dedicated=bool(columns.dedicated[row]),
            schedulable=bool(columns.schedulable[row]),
            carries_virtflow=bool(columns.carries_virtflow[row]),
            instances=int(columns.instances[row]),
            total=self._amounts(columns.total[:, row]),
            allocatable=self._amounts(columns.limit[:, row]),
            used=self._amounts(columns.limit[:, row] - columns.room[:, row]),
        )

    def labels(self) -> Iterator[tuple[str, int, dict[str, str]]]:
        """Name, id and labels of each host, in the order of names."""
        columns, words = self.columns, self.columns.vocabulary.label_sets.words
        for name, key, number in zip(self.names, columns.ids.tolist(), columns.label_set.tolist(), strict=True):
            yield name, key, dict(words[number])

    def set_self_hosts(self, carries_virtflow: Iterable[bool]) -> bool:
        """Which hosts carry virtflow itself, in the order of names; says whether that is news."""
        mask = np.fromiter(carries_virtflow, np.bool_, len(self))
        rows = np.flatnonzero(self.columns.carries_virtflow != mask)
        self.columns.carries_virtflow[rows] = mask[rows]
        self.note_changes(rows.tolist())
        self._note_attribute_changes(rows.tolist())
        return len(rows) > 0

    # ── pools ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def pool_names(self) -> tuple[str, ...]:
        """Pools that were put, and pools that hosts name."""
        words = self.columns.vocabulary.pools.words
        return tuple(sorted({*self._pools, *(words[number] for number in np.unique(self.columns.pool))}))

    def hosts_in_pool(self, name: str) -> int:
        return int(np.count_nonzero(self.columns.pool == self.columns.vocabulary.pools.find(name)))

    def put_pool(self, pool: Pool) -> None:
        self._pools[pool.name] = pool
        self._pools_changed()

    def remove_pool(self, name: str) -> bool:
        """Says whether it had been put. Hosts that name it keep it alive, with the settings of the installation."""
        was_there = self._pools.pop(name, None) is not None
        self._pools_changed()
        return was_there

    def pool(self, name: str) -> Pool | None:
        return self._pools.get(name)

    def _pools_changed(self) -> None:
        closed = frozenset(name for name, pool in self._pools.items() if not pool.spec.accepts_work)
        self.columns.vocabulary.closed_pools = closed
        self.memory.clear()

    # ── strategies ────────────────────────────────────────────────────────────────────────────────

    def use_strategy(self, name: str) -> None:
        """From now on the installation's is this one. Raises InvalidStrategy."""
        self.default_strategy = strategies.get(name).name
        self.memory.clear()

    def strategy_of(self, shape: Shape) -> Strategy:
        """The request's, else the pool's, else the installation's. Raises InvalidStrategy."""
        pool = self._pools.get(shape.pool)
        return strategies.get(shape.strategy or (pool.spec.strategy if pool else "") or self.default_strategy)

    def weights_of(self, strategy: Strategy, shape: Shape) -> dict[str, float]:
        """Raises InvalidStrategy for weights that cannot be set."""
        return strategies.weigh(strategy, self.weights.get(strategy.name, {}), dict(shape.weights))

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def dimensions(self) -> list[str]:
        return self.columns.vocabulary.dimensions.words

    def row(self, name: str) -> int:
        row = bisect_left(self.names, name)
        return row if row < len(self.names) and self.names[row] == name else NOT_THERE

    def row_after(self, name: str) -> int:
        """The row of the first greater name; one past the end after the last."""
        return bisect_right(self.names, name)

    def row_of_id(self, host_id: int) -> int:
        if self._ids_sorted is None:
            order = np.argsort(self.columns.ids, kind="stable")
            self._ids_sorted = (view(self.columns.ids[order]), view(order))
        ids, rows = self._ids_sorted
        at: int = bisect_left(ids, host_id)
        return int(rows[at]) if at < len(ids) and ids[at] == host_id else NOT_THERE

    # ── changes ───────────────────────────────────────────────────────────────────────────────────

    def note_changes(self, rows: Iterable[int]) -> None:
        """Tell those who catch up which rows to look at again."""
        changes = self._changes
        before = len(changes)
        changes.extend(rows)
        self.changes_end += len(changes) - before
        if len(changes) > CHANGES_KEPT_MAX:
            del changes[: len(changes) - CHANGES_KEPT_MAX // 2]

    def changes_since(self, position: int) -> "array[int] | None":
        """Rows that changed since, oldest first, some of them more than once; None when that is no longer known."""
        start = len(self._changes) - (self.changes_end - position)
        return self._changes[start:] if start >= 0 else None

    def distinct(self, changes: "array[int]") -> Ints:
        """The same rows, each once, in order. Marks on a slate beat sorting and sets for more than a few."""
        slate = self._slate
        slate[np.frombuffer(changes, np.int32)] = True
        rows = np.flatnonzero(slate)
        slate[rows] = False
        return rows

    def _note_attribute_changes(self, rows: Iterable[int]) -> None:
        self.attribute_changes.extend(rows)
        if len(self.attribute_changes) > CHANGES_KEPT_MAX:
            self.memory.clear()
            self.attribute_changes = array("i")

    # ── inside ────────────────────────────────────────────────────────────────────────────────────

    def _forget_positions(self) -> None:
        """Rows moved: nothing that was remembered by row number holds any longer."""
        # rows whose room or attributes changed, oldest first: the last ones of all that ever changed
        self._changes = array("i")
        self._slate = np.zeros(len(self.names), np.bool_)
        self.changes_end, self.attribute_changes = 0, array("i")
        self.memory, self._ids_sorted = {}, None
        columns = self.columns
        self.room_views = [view(row) for row in columns.room]
        self.total_views = [view(row) for row in columns.total]
        self.busy_views = [view(row) for row in columns.busy]
        self.instances_view = view(columns.instances)
        self.ids_view = view(columns.ids)

    def _set_columns(self, columns: Columns) -> None:
        self.columns = columns
        self._compact_words()
        self._forget_positions()

    def _insert(self, hosts: list[Host]) -> None:
        names = self.names + [host.name for host in hosts]
        order = sorted(range(len(names)), key=names.__getitem__)
        self.names = [names[row] for row in order]
        joined = self.columns.followed_by(columns_of(hosts, self.columns.vocabulary))
        self._set_columns(joined.at(np.array(order, np.int64)))

    def _replace(self, rows: Ints, hosts: list[Host]) -> None:
        fresh = columns_of(hosts, self.columns.vocabulary)
        if not np.array_equal(self.columns.ids[rows], fresh.ids):
            self._ids_sorted = None
        attributes_changed = self.columns.overwrite(rows, fresh)
        self.note_changes(rows.tolist())
        if attributes_changed:
            self._note_attribute_changes(rows.tolist())
            self._compact_words()

    def _learn_dimensions(self, hosts: Iterable[Host]) -> None:
        named = {name for host in hosts for amounts in (host.total, host.allocatable, host.used) for name in amounts}
        dimensions = self.columns.vocabulary.dimensions
        fresh = sorted(name for name in named if name not in dimensions)
        if not fresh:
            return
        if len(dimensions) + len(fresh) > len(DIMENSIONS) + CUSTOM_DIMENSIONS_MAX:
            raise InvalidRequest(
                f"hosts may use {CUSTOM_DIMENSIONS_MAX} custom dimensions in all, {', '.join(fresh)} would be too many",
                code="too_many_dimensions",
            )
        for name in fresh:
            dimensions.add(name)
        self._set_columns(self.columns.with_dimensions(len(dimensions)))

    def _compact_words(self) -> None:
        """Forget words that no host bears any longer, or relabelling would fill the memory."""
        columns, words = self.columns, self.columns.vocabulary
        for column, vocabulary in (("pool", "pools"), ("zone", "zones"), ("label_set", "label_sets")):
            numbering: Numbering[Any] = getattr(words, vocabulary)
            if len(numbering) > 2 * len(columns) + 64:
                used, renumbered = np.unique(getattr(columns, column), return_inverse=True)
                setattr(words, vocabulary, Numbering(numbering.words[number] for number in used.tolist()))
                setattr(columns, column, renumbered.astype(np.int32))

    def _amounts(self, column: Ints) -> dict[str, int]:
        """Built-in dimensions always, custom ones where there is something."""
        named = zip(self.dimensions, column.tolist(), strict=True)
        return {name: amount for name, amount in named if amount or name in DIMENSIONS}
