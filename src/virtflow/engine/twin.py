"""The compiled twin of the rankings: keeps its tables, and hands it whole batches."""

from array import array
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from virtflow.engine.columns import NOT_THERE
from virtflow.engine.compiled import (
    ALONE,
    BLOCK,
    BUSY,
    INSTANCES,
    NEVER,
    NO_SLOT,
    ROOM,
    SHAPE,
    SLOT,
    TERMS_MAX,
    place,
)
from virtflow.engine.fleet import Fleet
from virtflow.engine.keys import IMPOSSIBLE
from virtflow.engine.placer import Placed, Placer
from virtflow.engine.ranking import ANEW_SHARE, Allowed
from virtflow.engine.rankings import SHAPES_MAX, Rankings, rankings_max
from virtflow.model.shape import Shape

_KINDS: Final = {"busy": BUSY, "room": ROOM, "instances": INSTANCES}


class Twin:
    """Vanishes with the rankings, when rows move or a pool changes."""

    def __init__(self, fleet: Fleet, rankings: Rankings) -> None:
        self._fleet, self._rankings = fleet, rankings
        columns = fleet.columns
        self._hosts = (columns.room, columns.total, columns.busy, columns.instances)
        self._slots_max = rankings_max(fleet)
        self._attributes_seen = 0
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
            tables = (self._shapes, self._slots, self._allowed_masks, self._keys, self._trees)
            at, end = place(*self._hosts, *tables, changes, self._latest, base, end, numbers, at, rows, scores)
            if at == len(numbers):
                break
            self._fill_slot_for(int(numbers[at]))
        taken = array("i")
        taken.frombytes(changes[known : end - base].tobytes())
        fleet.note_changes(taken)
        return rows.tolist(), scores.tolist()

    def _changes(self, *, room_for: int) -> tuple[NDArray[np.int32], int]:
        """The last changes, as many as a ranking would catch up with, and room for more behind them."""
        fleet = self._fleet
        position = max(0, fleet.changes_end - int(ANEW_SHARE * len(fleet)) - 1)
        last = fleet.changes_since(position) or array("i")
        changes = np.empty(len(last) + room_for, np.int32)
        changes[: len(last)] = np.frombuffer(last, np.int32)
        self._latest[changes[: len(last)]] = np.arange(fleet.changes_end - len(last), fleet.changes_end)
        return changes, len(last)

    def _refresh_allowed(self) -> None:
        changed = len(self._fleet.attribute_changes)
        if changed != self._attributes_seen:
            for slot, allowed in enumerate(self._allowed):
                allowed.catch_up()
                self._allowed_masks[slot] = allowed.mask
            self._attributes_seen = changed

    # ── shapes ────────────────────────────────────────────────────────────────────────────────────

    def _forget(self) -> None:
        self._placers: list[Placer] = []
        self._numbers: dict[Shape, int] = {}
        self._shapes: Any = np.zeros(64, SHAPE)
        #: one for each slot that is filled
        self._allowed: list[Allowed] = []
        hosts = len(self._fleet)
        blocks = max(1, -(-hosts // BLOCK))
        leaves = 1 << (blocks - 1).bit_length()
        self._slots: Any = np.zeros(2, SLOT)
        self._allowed_masks: Any = np.zeros((2, hosts), np.bool_)
        # What lies behind the last host and the last block is never written, so it must be impossible from the start.
        self._keys: Any = np.full((2, blocks * BLOCK), IMPOSSIBLE, np.int64)
        self._trees: Any = np.full((2, 2 * leaves), IMPOSSIBLE, np.int64)
        #: what sharing shapes have in common -> its slot, and back
        self._shared_slots: dict[Hashable, int] = {}
        self._shared_in: dict[int, Hashable] = {}
        #: for each row the number of its last change, as far as it matters
        self._latest = np.zeros(hosts, np.int64)
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
        if number == len(self._shapes):
            self._shapes = _longer(self._shapes)
        find, count = self._fleet.columns.vocabulary.dimensions.find, len(shape.wants)
        record = self._shapes[number]
        record["wants"] = count
        record["dimension"][:count] = [find(dimension) for dimension, _ in shape.wants]
        record["amount"][:count] = [amount for _, amount in shape.wants]
        record["shared"] = ALONE if placer.sharing is None else NO_SLOT
        record["own"] = NO_SLOT
        return number

    # ── slots ─────────────────────────────────────────────────────────────────────────────────────

    def _fill_slot_for(self, number: int) -> None:
        """Give the ranking a slot that this shape needs next: the one it shares, or its own."""
        sharing = self._placers[number].sharing
        if self._shapes[number]["shared"] == ALONE:
            self._shapes[number]["own"] = self._fill(self._free_slot(), number, belongs_to=number)
            return
        if sharing not in self._shared_slots:
            slot = self._fill(self._free_slot(), number, belongs_to=ALONE)
            self._shared_slots[sharing], self._shared_in[slot] = slot, sharing
        self._shapes[number]["shared"] = self._shared_slots[sharing]

    def _free_slot(self) -> int:
        """A new one, or the one used longest ago."""
        filled = len(self._allowed)
        if filled < self._slots_max:
            if filled == len(self._slots):
                self._slots, self._allowed_masks = _longer(self._slots), _longer(self._allowed_masks)
                self._keys, self._trees = _longer(self._keys), _longer(self._trees)
            return filled
        slot = int(self._slots["used"][:filled].argmin())
        for which in ("own", "shared"):
            self._shapes[which][self._shapes[which] == slot] = NO_SLOT
        self._shared_slots.pop(self._shared_in.pop(slot, None), None)
        return slot

    def _fill(self, slot: int, number: int, *, belongs_to: int) -> int:
        placer, record = self._placers[number], self._slots[slot]
        columns, lefts = placer.formula.columns, placer.formula.lefts
        record["offset"], record["steps"] = placer.formula.offset, placer.strategy.steps
        record["terms"], record["lefts"] = len(columns), len(lefts)
        record["kind"][: len(columns)] = [_KINDS[one.column] for one in columns]
        record["dimension"][: len(columns)] = [one.dimension for one in columns]
        record["weight"][: len(columns)] = [one.weight for one in columns]
        record["left_dimension"][: len(lefts)] = [one.dimension for one in lefts]
        record["left_weight"][: len(lefts)] = [one.weight for one in lefts]
        record["left_wanted"][: len(lefts)] = [one.wanted for one in lefts]
        record["shape"], record["seen"], record["used"] = belongs_to, NEVER, self._fleet.changes_end
        allowed = self._rankings.allowed_for(placer.shape)
        allowed.catch_up()
        self._allowed_masks[slot] = allowed.mask
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


def _longer(table: Any) -> Any:
    """Twice as many rows. The new ones begin as copies, so that keys behind the last host stay impossible."""
    return np.concatenate((table, table))
