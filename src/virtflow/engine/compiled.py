"""The compiled twin of the rankings: places whole batches in machine code, with the same arithmetic and the same plan.

Needs numba (`virtflow[fast]`). Only `decide` imports this file, and goes on without it where numba is missing.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

import numba
import numpy as np

from virtflow.engine.columns import NOT_THERE, Floats, Ints
from virtflow.engine.fleet import Fleet
from virtflow.engine.keys import IMPOSSIBLE, INSTANCE_BITS, INSTANCES_COMPARED_MAX, STEPS_MAX
from virtflow.engine.placer import Placed, Placer
from virtflow.engine.ranking import ANEW_SHARE, Allowed
from virtflow.engine.rankings import KEYS_MAX, RANKINGS_MAX, RANKINGS_MIN, SHAPES_MAX, Rankings, said_of
from virtflow.engine.scores import Formula
from virtflow.model.limits import CUSTOM_DIMENSIONS_MAX
from virtflow.model.resources import DIMENSIONS
from virtflow.model.shape import Shape

#: Keys are searched in blocks of so many, below a tree of the minima of the blocks.
BLOCK_BITS: Final = 5
BLOCK: Final = 1 << BLOCK_BITS
#: Strategies with more terms than that are placed in Python.
TERMS_MAX: Final = 16
WANTS_MAX: Final = len(DIMENSIONS) + CUSTOM_DIMENSIONS_MAX

#: the shape does not share a ranking, or no longer
ALONE: Final = -1
#: the ranking it needs does not stand in a slot now
NO_SLOT: Final = -2

_BUSY, _ROOM, _INSTANCES = 0, 1, 2
_KINDS: Final = {"busy": _BUSY, "room": _ROOM, "instances": _INSTANCES}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compile(function: _Function) -> _Function:
    """Compiled when first called, and kept on disk where that can be written."""
    try:
        return cast("_Function", numba.njit(cache=True, error_model="numpy")(function))
    except RuntimeError:  # no place to keep it
        return cast("_Function", numba.njit(error_model="numpy")(function))


class Hosts(NamedTuple):
    """The columns of the fleet that placing reads and writes."""

    room: Ints
    total: Ints
    busy: Floats
    instances: Ints


class Shapes(NamedTuple):
    """What each shape takes, and the slots of its rankings."""

    wants: Ints
    dimension: Ints
    amount: Ints
    shared: Ints
    own: Ints


class Slots(NamedTuple):
    """Rankings, one in each slot: a formula, the hosts allowed, the keys, and a tree of their minima."""

    offset: Floats
    steps: Floats
    terms: Ints
    kind: Ints
    dimension: Ints
    weight: Floats
    lefts: Ints
    left_dimension: Ints
    left_weight: Floats
    left_wanted: Ints
    #: the row in `masks`
    mask: Ints
    #: the shape it belongs to, ALONE for a shared one
    shape: Ints
    #: how many changes of the fleet it has seen; -1 = all keys must be computed
    seen: Ints
    #: the number of the last decision that used it
    used: Ints
    keys: Ints
    tree: Ints


# ── machine code ──────────────────────────────────────────────────────────────────────────────────


@_compile
def _fits(hosts: Hosts, shapes: Shapes, shape: int, row: int) -> bool:
    for at in range(shapes.wants[shape]):
        if hosts.room[shapes.dimension[shape, at], row] < shapes.amount[shape, at]:
            return False
    return True


@_compile
def _take(hosts: Hosts, shapes: Shapes, shape: int, row: int) -> None:
    for at in range(shapes.wants[shape]):
        dimension = shapes.dimension[shape, at]
        free = hosts.room[dimension, row] - shapes.amount[shape, at]
        total = hosts.total[dimension, row]
        hosts.room[dimension, row] = free
        hosts.busy[dimension, row] = (total - free) / max(total, 1)
    hosts.instances[row] += 1


@_compile
def _key(hosts: Hosts, shapes: Shapes, slots: Slots, masks: Ints, slot: int, row: int) -> int:
    shape = slots.shape[slot]
    if not masks[slots.mask[slot], row] or (shape >= 0 and not _fits(hosts, shapes, shape, row)):
        return IMPOSSIBLE
    score = slots.offset[slot]
    for at in range(slots.terms[slot]):
        kind, dimension = slots.kind[slot, at], slots.dimension[slot, at]
        if kind == _BUSY:
            value = hosts.busy[dimension, row]
        elif kind == _ROOM:
            value = float(hosts.room[dimension, row])
        else:
            value = float(hosts.instances[row])
        score += slots.weight[slot, at] * value
    for at in range(slots.lefts[slot]):
        dimension = slots.left_dimension[slot, at]
        left = hosts.room[dimension, row] - slots.left_wanted[slot, at]
        score += slots.left_weight[slot, at] * (left / max(hosts.total[dimension, row], 1))
    steps = np.floor(score * slots.steps[slot] + 0.5)
    steps = max(min(steps, float(STEPS_MAX)), -float(STEPS_MAX))
    return (np.int64(steps) << INSTANCE_BITS) | min(hosts.instances[row], INSTANCES_COMPARED_MAX)


@_compile
def _block_minimum(slots: Slots, slot: int, block: int) -> int:
    minimum = IMPOSSIBLE
    for row in range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS):
        minimum = min(minimum, slots.keys[slot, row])
    return minimum


@_compile
def _set_key(slots: Slots, slot: int, row: int, key: int) -> None:
    old = slots.keys[slot, row]
    slots.keys[slot, row] = key
    node = (slots.tree.shape[1] >> 1) + (row >> BLOCK_BITS)
    minimum = slots.tree[slot, node]
    if key < minimum:
        minimum = key
    elif old == minimum and key != old:
        minimum = _block_minimum(slots, slot, row >> BLOCK_BITS)
    while slots.tree[slot, node] != minimum:
        slots.tree[slot, node] = minimum
        if node == 1:
            break
        minimum = min(minimum, slots.tree[slot, node ^ 1])
        node >>= 1


@_compile
def _lowest(slots: Slots, slot: int) -> int:
    """The first row with the lowest key; -1 when no host is possible."""
    lowest, node, leaves = slots.tree[slot, 1], 1, slots.tree.shape[1] >> 1
    if lowest == IMPOSSIBLE:
        return NOT_THERE
    while node < leaves:
        node <<= 1
        if slots.tree[slot, node] != lowest:
            node += 1
    row = (node - leaves) << BLOCK_BITS
    while slots.keys[slot, row] != lowest:
        row += 1
    return row


@_compile
def _rank_all(hosts: Hosts, shapes: Shapes, slots: Slots, masks: Ints, slot: int) -> None:
    leaves = slots.tree.shape[1] >> 1
    for row in range(len(hosts.instances)):
        slots.keys[slot, row] = _key(hosts, shapes, slots, masks, slot, row)
    for block in range(slots.keys.shape[1] >> BLOCK_BITS):
        slots.tree[slot, leaves + block] = _block_minimum(slots, slot, block)
    for node in range(leaves - 1, 0, -1):
        slots.tree[slot, node] = min(slots.tree[slot, 2 * node], slots.tree[slot, 2 * node + 1])


@_compile
def _catch_up(
    hosts: Hosts, shapes: Shapes, slots: Slots, masks: Ints, slot: int, changes: Ints, base: int, end: int
) -> None:
    """`changes` are those from number `base` on, up to `end`."""
    seen = slots.seen[slot]
    if seen < base or end - seen > ANEW_SHARE * len(hosts.instances):
        _rank_all(hosts, shapes, slots, masks, slot)
    else:
        for at in range(seen - base, end - base):
            row = changes[at]
            _set_key(slots, slot, row, _key(hosts, shapes, slots, masks, slot, row))
    slots.seen[slot] = end


@_compile
def _place(
    hosts: Hosts,
    shapes: Shapes,
    slots: Slots,
    masks: Ints,
    changes: Ints,
    base: int,
    end: int,
    asked: Ints,
    start: int,
    rows: Ints,
    scores: Floats,
) -> tuple[int, int]:
    """Place what is asked from `start` on. Stops early at a shape whose ranking has no slot; says where, and the end."""
    for at in range(start, len(asked)):
        shape = asked[at]
        slot = shapes.shared[shape]
        row = NOT_THERE
        if slot >= 0:
            _catch_up(hosts, shapes, slots, masks, slot, changes, base, end)
            row = _lowest(slots, slot)
            if row != NOT_THERE and not _fits(hosts, shapes, shape, row):
                slot = shapes.shared[shape] = ALONE  # the best host has no room: look among those that have
        if slot == ALONE:
            slot = shapes.own[shape]
            if slot >= 0:
                _catch_up(hosts, shapes, slots, masks, slot, changes, base, end)
                row = _lowest(slots, slot)
        if slot < 0:
            return at, end
        slots.used[slot] = base + at
        rows[at] = row
        if row == NOT_THERE:
            continue
        scores[at] = (slots.keys[slot, row] >> INSTANCE_BITS) / slots.steps[slot]
        _take(hosts, shapes, shape, row)
        changes[end - base] = row
        end += 1
        _set_key(slots, slot, row, _key(hosts, shapes, slots, masks, slot, row))
        slots.seen[slot] = end
    return len(asked), end


# ── the slots ─────────────────────────────────────────────────────────────────────────────────────


class Twin:
    """Fills the slots, and hands batches to the machine code."""

    def __init__(self, fleet: Fleet, rankings: Rankings) -> None:
        self._fleet, self._rankings = fleet, rankings
        columns = fleet.columns
        self._hosts = Hosts(columns.room, columns.total, columns.busy, columns.instances)
        self._blocks = max(1, -(-len(fleet) // BLOCK))
        self._slots_max = max(RANKINGS_MIN, min(RANKINGS_MAX, KEYS_MAX // max(1, len(fleet))))
        self._forget()

    def _forget(self) -> None:
        self._placers: list[Placer] = []
        self._numbers: dict[Shape, int] = {}
        self._masks_known: dict[Any, int] = {}
        self._allowed: list[Allowed] = []
        self._masks_seen: list[int] = []
        self._sharing: dict[Any, int] = {}
        self._shared_key: dict[int, Any] = {}
        self._slots_filled = 0
        self._shapes = _shapes(64)
        self._masks = np.zeros((2, len(self._fleet)), np.bool_)
        self._slots = _slots(2, self._blocks)

    def number(self, shape: Shape) -> int:
        """The number of a shape; -1 when only Python can place it, or refuse it."""
        number = self._numbers.get(shape)
        if number is not None:
            return number
        placer = self._rankings.of(shape)
        if placer is None or not _is_plain(placer):
            return NOT_THERE
        if len(self._placers) >= SHAPES_MAX:
            self._forget()
        return self._add_shape(placer)

    def place(self, asked: Sequence[int]) -> Placed:
        """Place these shapes, by number and in order: rows, -1 where no host would do, and scores."""
        wanted = np.array(asked, np.int64)
        rows = np.full(len(wanted), NOT_THERE, np.int64)
        scores = np.zeros(len(wanted))
        self._refresh_masks()
        changes, base = self._changes(len(wanted))
        at, end = 0, self._fleet.changes_end
        while True:
            at, end = _place(
                self._hosts, self._shapes, self._slots, self._masks, changes, base, end, wanted, at, rows, scores
            )
            if at == len(wanted):
                break
            self._fill_slot_for(int(wanted[at]))
        taken = array("i")
        taken.frombytes(changes[self._fleet.changes_end - base : end - base].tobytes())
        self._fleet.note_changes(taken)
        return rows.tolist(), scores.tolist()
