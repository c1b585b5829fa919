"""Placing in machine code: what `ranking` does, with the same arithmetic, for a whole batch in one call.

Needs numba (`virtflow[fast]`). Only `twin` imports this file, which `decide` does without where numba is missing.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

import numba
import numpy as np

from virtflow.engine.columns import NOT_THERE, Floats, Ints, Mask
from virtflow.engine.keys import IMPOSSIBLE, INSTANCE_BITS, INSTANCES_COMPARED_MAX, STEPS_MAX
from virtflow.engine.ranking import ANEW_SHARE

#: Keys are searched in blocks of so many, below a tree of the minima of the blocks.
BLOCK_BITS: Final = 5
BLOCK: Final = 1 << BLOCK_BITS
#: the shape does not share a ranking, or no longer
ALONE: Final = -1
#: the ranking it needs does not stand in a slot now
NO_SLOT: Final = -2

#: what a term reads
BUSY, ROOM, INSTANCES = 0, 1, 2

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
    #: the shape it belongs to, ALONE for a shared one
    shape: Ints
    #: how many changes of the fleet it has seen; -1 = all keys must be computed
    seen: Ints
    #: how many there were when it was last used
    used: Ints
    #: the hosts that the static filters let pass
    allowed: Mask
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
def _key(hosts: Hosts, shapes: Shapes, slots: Slots, slot: int, row: int) -> int:
    shape = slots.shape[slot]
    if not slots.allowed[slot, row] or (shape >= 0 and not _fits(hosts, shapes, shape, row)):
        return IMPOSSIBLE
    score = slots.offset[slot]
    for at in range(slots.terms[slot]):
        kind, dimension = slots.kind[slot, at], slots.dimension[slot, at]
        if kind == BUSY:
            value = hosts.busy[dimension, row]
        elif kind == ROOM:
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
def _rank_all(hosts: Hosts, shapes: Shapes, slots: Slots, slot: int) -> None:
    leaves = slots.tree.shape[1] >> 1
    for row in range(len(hosts.instances)):
        slots.keys[slot, row] = _key(hosts, shapes, slots, slot, row)
    for block in range(slots.keys.shape[1] >> BLOCK_BITS):
        slots.tree[slot, leaves + block] = _block_minimum(slots, slot, block)
    for node in range(leaves - 1, 0, -1):
        slots.tree[slot, node] = min(slots.tree[slot, 2 * node], slots.tree[slot, 2 * node + 1])


@_compile
def _catch_up(hosts: Hosts, shapes: Shapes, slots: Slots, slot: int, changes: Ints, base: int, end: int) -> None:
    """`changes` are those from number `base` on, up to `end`."""
    seen = slots.seen[slot]
    if seen < base or end - seen > ANEW_SHARE * len(hosts.instances):
        _rank_all(hosts, shapes, slots, slot)
    else:
        for at in range(seen - base, end - base):
            row = changes[at]
            _set_key(slots, slot, row, _key(hosts, shapes, slots, slot, row))
    slots.seen[slot] = end


@_compile
def place(
    hosts: Hosts,
    shapes: Shapes,
    slots: Slots,
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
            _catch_up(hosts, shapes, slots, slot, changes, base, end)
            row = _lowest(slots, slot)
            if row != NOT_THERE and not _fits(hosts, shapes, shape, row):
                slot = shapes.shared[shape] = ALONE  # the best host has no room: look among those that have
        if slot == ALONE:
            slot = shapes.own[shape]
            if slot >= 0:
                _catch_up(hosts, shapes, slots, slot, changes, base, end)
                row = _lowest(slots, slot)
        if slot < 0:
            return at, end
        slots.used[slot] = end
        rows[at] = row
        if row == NOT_THERE:
            continue
        scores[at] = (slots.keys[slot, row] >> INSTANCE_BITS) / slots.steps[slot]
        _take(hosts, shapes, shape, row)
        changes[end - base] = row
        end += 1
        _set_key(slots, slot, row, _key(hosts, shapes, slots, slot, row))
        slots.seen[slot] = end
    return len(asked), end
