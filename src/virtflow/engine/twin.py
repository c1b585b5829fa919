"""The compiled twin of the rankings: keeps its tables, and hands it whole batches."""

from array import array
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from virtflow.engine.columns import NOT_THERE, Ints
from virtflow.engine.compiled import ALONE, BLOCK, BUSY, INSTANCES, NO_SLOT, ROOM, Hosts, Shapes, Slots, place
from virtflow.engine.fleet import Fleet
from virtflow.engine.keys import IMPOSSIBLE
from virtflow.engine.placer import Placed, Placer
from virtflow.engine.ranking import ANEW_SHARE, Allowed
from virtflow.engine.rankings import SHAPES_MAX, Rankings, rankings_max, said_of
from virtflow.model.limits import CUSTOM_DIMENSIONS_MAX
from virtflow.model.resources import DIMENSIONS
from virtflow.model.shape import Shape

#: Strategies with more terms than that are placed in Python.
TERMS_MAX: Final = 16
WANTS_MAX: Final = len(DIMENSIONS) + CUSTOM_DIMENSIONS_MAX

_KINDS: Final = {"busy": BUSY, "room": ROOM, "instances": INSTANCES}


class Twin:
    """Vanishes with the rankings, when rows move or a pool changes."""

    def __init__(self, fleet: Fleet, rankings: Rankings) -> None:
        self._fleet, self._rankings = fleet, rankings
        columns = fleet.columns
        self._hosts = Hosts(columns.room, columns.total, columns.busy, columns.instances)
        self._slots_max = rankings_max(fleet)
        self._forget()

    def numbers(self, shapes: Iterable[Shape]) -> dict[int, int]:
        """id of a shape -> its number here; -1 when only Python can place it, or refuse it."""
        if len(self._placers) > SHAPES_MAX:
            self._forget()
        return {id(shape): self._number(shape) for shape in shapes}

    def place(self, asked: Sequence[int]) -> Placed:
        """Place these shapes, by number and in order: rows, -1 where no host would do, and scores."""
        fleet = self._fleet
        numbers = np.array(asked, np.int64)
        rows, scores = np.full(len(numbers), NOT_THERE, np.int64), np.zeros(len(numbers))
        self._refresh_allowed()
        changes, known = self._changes(room_for=len(numbers))
        base, at, end = fleet.changes_end - known, 0, fleet.changes_end
        while True:
            at, end = place(self._hosts, self._shapes, self._slots, changes, base, end, numbers, at, rows, scores)
            if at == len(numbers):
                break
            self._fill_slot_for(int(numbers[at]))
        taken = array("i")
        taken.frombytes(changes[known : end - base].tobytes())
        fleet.note_changes(taken)
        return rows.tolist(), scores.tolist()

    def _changes(self, *, room_for: int) -> tuple[Ints, int]:
        """The last changes, as many as a ranking would catch up with, and room for more behind them."""
        fleet = self._fleet
        position = max(0, fleet.changes_end - int(ANEW_SHARE * len(fleet)) - 1)
        last = fleet.changes_since(position) or array("i")
        changes = np.empty(len(last) + room_for, np.int32)
        changes[: len(last)] = np.frombuffer(last, np.int32)
        return changes, len(last)

    def _refresh_allowed(self) -> None:
        changed = len(self._fleet.attribute_changes)
        if changed != self._attributes_seen:
            for slot, allowed in enumerate(self._allowed):
                allowed.catch_up()
                self._slots.allowed[slot] = allowed.mask
            self._attributes_seen = changed

    # ── shapes ────────────────────────────────────────────────────────────────────────────────────

    def _forget(self) -> None:
        self._placers: list[Placer] = []
        self._numbers: dict[Shape, int] = {}
        self._shapes = _empty_shapes(64)
        #: one for each slot that is filled
        self._allowed: list[Allowed] = []
        self._slots = _empty_slots(2, len(self._fleet))
        #: what sharing shapes have in common -> its slot, and back
        self._shared_slots: dict[Hashable, int] = {}
        self._shared_in: dict[int, Hashable] = {}
        self._attributes_seen = len(self._fleet.attribute_changes)

    def _number(self, shape: Shape) -> int:
        known = self._numbers.get(shape)
        if known is not None:
            return known
        placer = self._rankings.of(shape)
        if placer is None or not _is_plain(placer):
            return NOT_THERE
        number = self._numbers[shape] = len(self._placers)
        self._placers.append(placer)
        if number == len(self._shapes.wants):
            self._shapes = Shapes(*(_longer(table) for table in self._shapes))
        shapes, find = self._shapes, self._fleet.columns.vocabulary.dimensions.find
        shapes.wants[number] = len(shape.wants)
        shapes.dimension[number, : len(shape.wants)] = [find(dimension) for dimension, _ in shape.wants]
        shapes.amount[number, : len(shape.wants)] = [amount for _, amount in shape.wants]
        shapes.shared[number] = NO_SLOT if placer.sharing is not None else ALONE
        shapes.own[number] = NO_SLOT
        return number

    # ── slots ─────────────────────────────────────────────────────────────────────────────────────

    def _fill_slot_for(self, number: int) -> None:
        """Give the ranking a slot that this shape needs next: the one it shares, or its own."""
        sharing = self._placers[number].sharing
        if self._shapes.shared[number] == ALONE:
            self._shapes.own[number] = self._fill(self._free_slot(), number, belongs_to=number)
            return
        if sharing not in self._shared_slots:
            slot = self._fill(self._free_slot(), number, belongs_to=ALONE)
            self._shared_slots[sharing], self._shared_in[slot] = slot, sharing
        self._shapes.shared[number] = self._shared_slots[sharing]

    def _free_slot(self) -> int:
        """A new one, or the one used longest ago."""
        filled = len(self._allowed)
        if filled < self._slots_max:
            if filled == len(self._slots.offset):
                self._slots = Slots(*(_longer(table) for table in self._slots))
            return filled
        slot = int(self._slots.used[:filled].argmin())
        self._shapes.own[self._shapes.own == slot] = NO_SLOT
        self._shapes.shared[self._shapes.shared == slot] = NO_SLOT
        self._shared_slots.pop(self._shared_in.pop(slot, None), None)
        return slot

    def _fill(self, slot: int, number: int, *, belongs_to: int) -> int:
        placer, slots = self._placers[number], self._slots
        columns, lefts = placer.formula.columns, placer.formula.lefts
        slots.offset[slot], slots.steps[slot] = placer.formula.offset, placer.strategy.steps
        slots.terms[slot], slots.lefts[slot] = len(columns), len(lefts)
        slots.kind[slot, : len(columns)] = [_KINDS[one.column] for one in columns]
        slots.dimension[slot, : len(columns)] = [one.dimension for one in columns]
        slots.weight[slot, : len(columns)] = [one.weight for one in columns]
        slots.left_dimension[slot, : len(lefts)] = [one.dimension for one in lefts]
        slots.left_weight[slot, : len(lefts)] = [one.weight for one in lefts]
        slots.left_wanted[slot, : len(lefts)] = [one.wanted for one in lefts]
        slots.shape[slot], slots.seen[slot], slots.used[slot] = belongs_to, -1, self._fleet.changes_end
        allowed = self._rankings.allowed_for(placer.shape)
        allowed.catch_up()
        slots.allowed[slot] = allowed.mask
        self._allowed[slot : slot + 1] = [allowed]
        return slot


def twin_of(fleet: Fleet, rankings: Rankings) -> Twin:
    """The twin this fleet keeps."""
    kept = fleet.memory.get("twin")
    if not isinstance(kept, Twin):
        kept = fleet.memory["twin"] = Twin(fleet, rankings)
    return kept


def _is_plain(placer: Placer) -> bool:
    """A weighted sum of few enough terms."""
    strategy, formula = placer.strategy, placer.formula
    if strategy.choose is not None or strategy.score is not None:
        return False
    return len(formula.columns) <= TERMS_MAX and len(formula.lefts) <= TERMS_MAX


def _empty_shapes(count: int) -> Shapes:
    wants = (count, WANTS_MAX)
    return Shapes(
        wants=_ints(count), dimension=_ints(wants), amount=_ints(wants), shared=_ints(count), own=_ints(count)
    )


def _empty_slots(count: int, hosts: int) -> Slots:
    blocks = max(1, -(-hosts // BLOCK))
    leaves = 1 << (blocks - 1).bit_length()
    terms = (count, TERMS_MAX)
    return Slots(
        offset=np.zeros(count),
        steps=np.zeros(count),
        terms=_ints(count),
        kind=_ints(terms),
        dimension=_ints(terms),
        weight=np.zeros(terms),
        lefts=_ints(count),
        left_dimension=_ints(terms),
        left_weight=np.zeros(terms),
        left_wanted=_ints(terms),
        shape=_ints(count),
        seen=_ints(count),
        used=_ints(count),
        allowed=np.zeros((count, hosts), np.bool_),
        keys=np.full((count, blocks * BLOCK), IMPOSSIBLE, np.int64),
        tree=np.full((count, 2 * leaves), IMPOSSIBLE, np.int64),
    )


def _ints(shape: int | tuple[int, int]) -> Ints:
    return np.zeros(shape, np.int64)


def _longer(table: Any) -> Any:
    """Twice as many rows. New rows of keys begin impossible, like all others did."""
    return np.concatenate((table, np.full_like(table, IMPOSSIBLE if table.dtype == np.int64 else 0)))
