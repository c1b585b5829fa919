"""Placing in machine code: what `ranking` does, with the same arithmetic, for a whole batch in one call.

Needs numba (`virtflow[fast]`). Only `twin` imports this file, which `decide` does without where numba is missing.

Arrays are passed one by one and tables are arrays of records: taken out of tuples, each would be counted as a new
reference at every turn, which costs more than the arithmetic.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from virtflow.engine.columns import NOT_THERE, Floats, Ints, Mask
from virtflow.engine.keys import IMPOSSIBLE, INSTANCE_BITS, INSTANCES_COMPARED_MAX, STEPS_MAX
from virtflow.engine.ranking import ANEW_SHARE
from virtflow.model.limits import CUSTOM_DIMENSIONS_MAX
from virtflow.model.resources import DIMENSIONS

#: Keys are searched in blocks of so many, below a tree of the minima of the blocks.
BLOCK_BITS: Final = 5
BLOCK: Final = 1 << BLOCK_BITS
#: Strategies with more terms than that are placed in Python.
TERMS_MAX: Final = 16
WANTS_MAX: Final = len(DIMENSIONS) + CUSTOM_DIMENSIONS_MAX

#: the shape shares no ranking, or no longer; the ranking is a shared one
ALONE: Final = -1
#: the ranking that the shape needs next stands in no slot
NO_SLOT: Final = -2
#: a ranking that has seen nothing yet
NEVER: Final = -1
#: what a term reads
BUSY, ROOM, INSTANCES = 0, 1, 2

#: What a shape takes, and the slots of the rankings it is placed on.
SHAPE: Final = np.dtype(
    [
        ("wants", np.int64),
        ("dimension", np.int64, (WANTS_MAX,)),
        ("amount", np.int64, (WANTS_MAX,)),
        ("shared", np.int64),
        ("own", np.int64),
    ]
)
#: A ranking: its formula, whose it is, how many changes it has seen, and how many there were when it was last used.
SLOT: Final = np.dtype(
    [
        ("offset", np.float64),
        ("steps", np.float64),
        ("terms", np.int64),
        ("kind", np.int64, (TERMS_MAX,)),
        ("dimension", np.int64, (TERMS_MAX,)),
        ("weight", np.float64, (TERMS_MAX,)),
        ("lefts", np.int64),
        ("left_dimension", np.int64, (TERMS_MAX,)),
        ("left_weight", np.float64, (TERMS_MAX,)),
        ("left_wanted", np.int64, (TERMS_MAX,)),
        ("shape", np.int64),
        ("seen", np.int64),
        ("used", np.int64),
    ]
)
Records = NDArray[np.void]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compile(function: _Function) -> _Function:
    """Compiled when first called, and kept on disk where that can be written."""
    try:
        return cast("_Function", numba.njit(cache=True, error_model="numpy")(function))
    except RuntimeError:  # no place to keep it
        return cast("_Function", numba.njit(error_model="numpy")(function))


@_compile
def _fits(room: Ints, shapes: Records, shape: int, row: int) -> bool:
    for at in range(shapes[shape].wants):  # noqa: SIM110  # numba knows no generators here
        if room[shapes[shape].dimension[at], row] < shapes[shape].amount[at]:
            return False
    return True


@_compile
def _take(room: Ints, total: Ints, busy: Floats, instances: Ints, shapes: Records, shape: int, row: int) -> None:
    for at in range(shapes[shape].wants):
        dimension = shapes[shape].dimension[at]
        free = room[dimension, row] - shapes[shape].amount[at]
        room[dimension, row] = free
        busy[dimension, row] = (total[dimension, row] - free) / max(total[dimension, row], 1)
    instances[row] += 1


@_compile
def _key(
    room: Ints,
    total: Ints,
    busy: Floats,
    instances: Ints,
    shapes: Records,
    slots: Records,
    allowed: Mask,
    slot: int,
    row: int,
) -> int:
    shape = slots[slot].shape
    if not allowed[slot, row] or (shape >= 0 and not _fits(room, shapes, shape, row)):
        return IMPOSSIBLE
    score = slots[slot].offset
    for at in range(slots[slot].terms):
        kind, dimension = slots[slot].kind[at], slots[slot].dimension[at]
        if kind == BUSY:
            value = busy[dimension, row]
        elif kind == ROOM:
            value = float(room[dimension, row])
        else:
            value = float(instances[row])
        score += slots[slot].weight[at] * value
    for at in range(slots[slot].lefts):
        dimension = slots[slot].left_dimension[at]
        left = room[dimension, row] - slots[slot].left_wanted[at]
        score += slots[slot].left_weight[at] * (left / max(total[dimension, row], 1))
    steps = np.floor(score * slots[slot].steps + 0.5)
    steps = max(min(steps, float(STEPS_MAX)), -float(STEPS_MAX))
    key: int = (np.int64(steps) << INSTANCE_BITS) | min(instances[row], INSTANCES_COMPARED_MAX)
    return key


@_compile
def _block_minimum(keys: Ints, slot: int, block: int) -> int:
    minimum = IMPOSSIBLE
    for row in range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS):
        minimum = min(minimum, keys[slot, row])
    return minimum


@_compile
def _set_key(keys: Ints, tree: Ints, slot: int, row: int, key: int) -> None:
    old = keys[slot, row]
    keys[slot, row] = key
    node = (tree.shape[1] >> 1) + (row >> BLOCK_BITS)
    minimum = tree[slot, node]
    if key < minimum:
        minimum = key
    elif old == minimum and key != old:
        minimum = _block_minimum(keys, slot, row >> BLOCK_BITS)
    while tree[slot, node] != minimum:
        tree[slot, node] = minimum
        if node == 1:
            break
        minimum = min(minimum, tree[slot, node ^ 1])
        node >>= 1


@_compile
def _lowest(keys: Ints, tree: Ints, slot: int) -> int:
    """The first row with the lowest key; -1 when no host is possible."""
    lowest, leaves = tree[slot, 1], tree.shape[1] >> 1
    node: int = 1
    if lowest == IMPOSSIBLE:
        return NOT_THERE
    while node < leaves:
        node <<= 1
        if tree[slot, node] != lowest:
            node += 1
    row: int = (node - leaves) << BLOCK_BITS
    while keys[slot, row] != lowest:
        row += 1
    return row


@_compile
def _find_minima(keys: Ints, tree: Ints, slot: int) -> None:
    leaves = tree.shape[1] >> 1
    for block in range(keys.shape[1] >> BLOCK_BITS):
        tree[slot, leaves + block] = _block_minimum(keys, slot, block)
    for node in range(leaves - 1, 0, -1):
        tree[slot, node] = min(tree[slot, 2 * node], tree[slot, 2 * node + 1])


@_compile
def _catch_up(
    room: Ints,
    total: Ints,
    busy: Floats,
    instances: Ints,
    shapes: Records,
    slots: Records,
    allowed: Mask,
    keys: Ints,
    tree: Ints,
    slot: int,
    changes: NDArray[np.int32],
    latest: Ints,
    base: int,
    end: int,
) -> None:
    """`changes` are those from number `base` on, up to `end`; `latest` has the number of each row's last change."""
    seen = slots[slot].seen
    if seen < base or end - seen > ANEW_SHARE * len(instances):
        for row in range(len(instances)):
            keys[slot, row] = _key(room, total, busy, instances, shapes, slots, allowed, slot, row)
        _find_minima(keys, tree, slot)
    else:
        for at in range(seen - base, end - base):
            row = changes[at]
            if latest[row] != base + at:
                continue  # it changed again later
            key = _key(room, total, busy, instances, shapes, slots, allowed, slot, row)
            _set_key(keys, tree, slot, row, key)
    slots[slot].seen = end


@_compile
def place(
    room: Ints,
    total: Ints,
    busy: Floats,
    instances: Ints,
    shapes: Records,
    slots: Records,
    allowed: Mask,
    keys: Ints,
    tree: Ints,
    changes: NDArray[np.int32],
    latest: Ints,
    base: int,
    end: int,
    asked: Ints,
    start: int,
    rows: Ints,
    scores: Floats,
) -> tuple[int, int]:
    """Place what is asked from `start` on. Says where it stopped for a ranking that has no slot, and the new `end`."""
    for at in range(start, len(asked)):
        shape = asked[at]
        slot = shapes[shape].shared
        row = NOT_THERE
        if slot >= 0:
            _catch_up(
                room, total, busy, instances, shapes, slots, allowed, keys, tree, slot, changes, latest, base, end
            )
            row = _lowest(keys, tree, slot)
            if row != NOT_THERE and not _fits(room, shapes, shape, row):
                slot = ALONE  # the best host has no room, so look among those that have
                shapes[shape].shared = ALONE
        if slot == ALONE:
            slot = shapes[shape].own
            if slot >= 0:
                _catch_up(
                    room, total, busy, instances, shapes, slots, allowed, keys, tree, slot, changes, latest, base, end
                )
                row = _lowest(keys, tree, slot)
        if slot < 0:
            return at, end
        slots[slot].used = end
        rows[at] = row
        if row == NOT_THERE:
            continue
        scores[at] = (keys[slot, row] >> INSTANCE_BITS) / slots[slot].steps
        _take(room, total, busy, instances, shapes, shape, row)
        changes[end - base] = row
        latest[row] = end
        end += 1
        key = _key(room, total, busy, instances, shapes, slots, allowed, slot, row)
        _set_key(keys, tree, slot, row, key)
        slots[slot].seen = end
    return len(asked), end
