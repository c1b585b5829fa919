"""The hosts as one shape sees them: a key for each, lowest first, kept up to date instead of computed anew.

Keys stand in blocks with the minimum of each block beside them, so the best host is found by looking at the minima and
then at one block. Placing an instance changes one key. What others changed meanwhile is in the fleet's list of changes,
and a ranking catches up with it when it is next used: host by host for a few changes, all at once for many.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from virtflow.engine import filters
from virtflow.engine.columns import NOT_THERE, Columns, Floats, Ints, Mask, Rows, View, view
from virtflow.engine.fleet import Fleet
from virtflow.engine.keys import IMPOSSIBLE, INSTANCE_BITS, key_of, keys_of
from virtflow.engine.scores import Formula
from virtflow.engine.strategies.strategy import Strategy, WholeScore
from virtflow.model.shape import Shape

BLOCK_BITS: Final = 7
BLOCK: Final = 1 << BLOCK_BITS
#: more changes than that are caught up with all at once
ONE_BY_ONE_MAX: Final = 24
#: when more than this share of the hosts changed, all keys are computed anew
ANEW_SHARE: Final = 0.25


class Allowed:
    """The hosts that the static filters let pass, shared by every shape that says the same to them."""

    __slots__ = ("_fleet", "_seen", "_shape", "mask", "view")

    def __init__(self, fleet: Fleet, shape: Shape) -> None:
        self._fleet, self._shape = fleet, shape
        self.mask: Mask = filters.allowed(fleet.columns, shape).copy()
        self.view = view(self.mask)
        self._seen = len(fleet.attribute_changes)

    def catch_up(self) -> None:
        changes = self._fleet.attribute_changes
        if self._seen == len(changes):
            return
        rows = np.unique(np.array(changes[self._seen :], np.int64))
        self.mask[rows] = filters.allowed(self._fleet.columns.at(rows), self._shape)
        self._seen = len(changes)


class Ranking:
    """One shape's view of the fleet, for strategies that are a weighted sum or do not look at scores at all."""

    __slots__ = (
        "_allowed",
        "_columns",
        "_fleet",
        "_formula",
        "_instances",
        "_keys_view",
        "_minima_view",
        "_scored",
        "_scored_left",
        "_seen",
        "_wants",
        "keys",
        "minima",
        "shape",
        "steps",
        "strategy",
    )

    def __init__(self, fleet: Fleet, shape: Shape, strategy: Strategy, formula: Formula, allowed: Allowed) -> None:
        self.shape, self.strategy, self.steps = shape, strategy, strategy.steps
        self._fleet, self._columns, self._allowed, self._formula = fleet, fleet.columns, allowed, formula
        self._instances = fleet.instances_view
        find = fleet.columns.vocabulary.dimensions.find
        self._wants = [
            (fleet.room_views[number], fleet.total_views[number], fleet.busy_views[number], amount, number)
            for number, amount in ((find(dimension), amount) for dimension, amount in shape.wants)
        ]
        self._scored = [(one.weight, _view(fleet, one.column, one.dimension)) for one in formula.columns]
        self._scored_left = [
            (one.weight, fleet.room_views[one.dimension], fleet.total_views[one.dimension], one.wanted)
            for one in formula.lefts
        ]
        blocks = max(1, -(-len(fleet) // BLOCK))
        self.keys: Ints = np.full(blocks * BLOCK, IMPOSSIBLE, np.int64)
        self.minima: Ints = np.full(blocks, IMPOSSIBLE, np.int64)
        self._keys_view, self._minima_view = view(self.keys), view(self.minima)
        self._rank_all()

    # ── choosing ──────────────────────────────────────────────────────────────────────────────────

    def lowest(self) -> int:
        """The row with the lowest key, the first of equals; -1 when no host is possible."""
        block = int(self.minima.argmin())
        if self._minima_view[block] == IMPOSSIBLE:
            return NOT_THERE
        start = block << BLOCK_BITS
        return start + int(self.keys[start : start + BLOCK].argmin())

    def score(self, row: int) -> float:
        """The score of a possible host, as exact as scores are compared."""
        return float((self._keys_view[row] >> INSTANCE_BITS) / self.steps)

    def take(self, row: int) -> None:
        """One more instance of the shape stands there."""
        self._fleet.note_changes((row,))
        self._count(row, 1)
        self._set_key(row, self._key(row))
        self._seen = self._fleet.changes_end

    def give(self, row: int) -> None:
        """One instance of the shape less stands there. Its key follows when the ranking is next used."""
        self._count(row, -1)
        self._fleet.note_changes((row,))

    def place(self, count: int) -> tuple[list[int], list[float]]:
        """Place so many, one after the other, each on the best host of its moment: the rows and their scores."""
        rows: list[int] = []
        scores: list[float] = []
        keys, keys_view, minima, minima_view = self.keys, self._keys_view, self.minima, self._minima_view
        steps, take_one = self.steps, self._take_one
        while count:
            block = int(minima.argmin())
            lowest = minima_view[block]
            if lowest == IMPOSSIBLE:
                break
            start = block << BLOCK_BITS
            part = keys[start : start + BLOCK]
            row = start + int(part.argmin())
            key = lowest
            while count and key <= lowest:  # as long as it only becomes better, nobody else can pass it
                lowest = key
                rows.append(row)
                scores.append((lowest >> INSTANCE_BITS) / steps)
                count -= 1
                key = take_one(row)
            keys_view[row] = key
            minima_view[block] = keys_view[start + int(part.argmin())]
        self._fleet.note_changes(rows)
        self._seen = self._fleet.changes_end
        return rows, scores

    # ── what rules of choice may ask ──────────────────────────────────────────────────────────────

    def first_from(self, row: int) -> int:
        """The first possible row at or after `row`, going round; -1 when none is possible."""
        if row < len(self._fleet) and self._keys_view[row] != IMPOSSIBLE:
            return row
        block = row >> BLOCK_BITS
        end = (block + 1) << BLOCK_BITS
        found = _first(self.keys[row:end])
        if found != NOT_THERE:
            return row + found
        found = _first(self.minima[block + 1 :])
        if found != NOT_THERE:
            return self._first_in(block + 1 + found)
        found = _first(self.minima[: block + 1])
        return NOT_THERE if found == NOT_THERE else self._first_in(found)

    def nth(self, draw: int) -> int:
        """The possible row at rank `draw` × count / 2**64; -1 when none is possible."""
        rows = np.flatnonzero(self.keys != IMPOSSIBLE)
        return int(rows[(draw * len(rows)) >> 64]) if len(rows) else NOT_THERE

    def row_after(self, name: str) -> int:
        return self._fleet.row_after(name)

    def _first_in(self, block: int) -> int:
        start = block << BLOCK_BITS
        return start + _first(self.keys[start : start + BLOCK])

    # ── catching up ───────────────────────────────────────────────────────────────────────────────

    def catch_up(self) -> None:
        """Look again at every host that changed since this ranking was last used."""
        fleet = self._fleet
        end = fleet.changes_end
        if self._seen == end:
            return
        self._allowed.catch_up()
        changes = fleet.changes_since(self._seen)
        self._seen = end
        if changes is None:
            self._rank_all()
            return
        rows = set(changes) if len(changes) > 1 else changes
        if len(rows) <= ONE_BY_ONE_MAX:
            for row in rows:
                self._set_key(row, self._key(row))
        elif len(rows) > ANEW_SHARE * len(fleet):
            self._rank_all()
        else:
            self._rank(np.fromiter(rows, np.int64, len(rows)))

    def _rank_all(self) -> None:
        self._seen = self._fleet.changes_end
        self._allowed.catch_up()
        self.keys[: len(self._fleet)] = self._keys(slice(None))
        self._find_minima()

    def _rank(self, rows: Ints) -> None:
        self.keys[rows] = self._keys(rows)
        self._find_minima()

    def _find_minima(self) -> None:
        np.min(self.keys.reshape(-1, BLOCK), axis=1, out=self.minima)

    def _set_key(self, row: int, key: int) -> None:
        old = self._keys_view[row]
        if key == old:
            return
        self._keys_view[row] = key
        block = row >> BLOCK_BITS
        minimum = self._minima_view[block]
        if key < minimum:
            self._minima_view[block] = key
        elif old == minimum:
            start = block << BLOCK_BITS
            self._minima_view[block] = self._keys_view[start + int(self.keys[start : start + BLOCK].argmin())]

    # ── keys: the same arithmetic for many hosts and for one ──────────────────────────────────────

    def _keys(self, rows: Rows) -> Ints:
        columns = self._columns
        possible = self._allowed.mask[rows]
        for _, _, _, amount, number in self._wants:
            possible = possible & (columns.room[number][rows] >= amount)
        keys = keys_of(self._scores(columns, rows), columns.instances[rows], self.steps)
        keys[~possible] = IMPOSSIBLE
        return keys

    def _scores(self, columns: Columns, rows: Rows) -> Floats:
        scores = np.full(len(columns.ids[rows]), self._formula.offset)
        for one in self._formula.columns:
            scores += one.weight * _column(columns, one.column, one.dimension)[rows]
        for share in self._formula.lefts:
            room, total = columns.room[share.dimension][rows], columns.total[share.dimension][rows]
            scores += share.weight * ((room - share.wanted) / np.maximum(total, 1))
        return scores

    def _key(self, row: int) -> int:
        if not self._allowed.view[row]:
            return IMPOSSIBLE
        for room, _, _, amount, _ in self._wants:
            if room[row] < amount:
                return IMPOSSIBLE
        return self._key_of_possible(row)

    def _key_of_possible(self, row: int) -> int:
        score = self._formula.offset
        for weight, column in self._scored:
            score += weight * column[row]
        for weight, room, total, wanted in self._scored_left:
            score += weight * ((room[row] - wanted) / (total[row] or 1))
        return key_of(score, self._instances[row], self.steps)

    def _take_one(self, row: int) -> int:
        """Take the room of one instance; the row's key afterwards. Only for rows that are possible."""
        fits = True
        for room, total, busy, amount, _ in self._wants:
            free = room[row] - amount
            room[row] = free
            whole = total[row]
            busy[row] = (whole - free) / (whole or 1)
            if free < amount:
                fits = False
        self._instances[row] += 1
        return self._key_of_possible(row) if fits else IMPOSSIBLE

    def _count(self, row: int, count: int) -> None:
        for room, total, busy, amount, _ in self._wants:
            free = room[row] - count * amount
            room[row] = free
            whole = total[row]
            busy[row] = (whole - free) / (whole or 1)
        self._instances[row] += count


class WholeRanking(Ranking):
    """For strategies whose score is any function of arrays: all anew for each decision. Slow, and always right."""

    __slots__ = ("_score", "_weights")

    def __init__(
        self,
        fleet: Fleet,
        shape: Shape,
        strategy: Strategy,
        allowed: Allowed,
        *,
        score: WholeScore,
        weights: Mapping[str, float],
    ) -> None:
        self._score, self._weights = score, weights
        super().__init__(fleet, shape, strategy, Formula(), allowed)

    def catch_up(self) -> None:
        self._rank_all()

    def take(self, row: int) -> None:
        self._count(row, 1)
        self._fleet.note_changes((row,))
        self._rank_all()

    def place(self, count: int) -> tuple[list[int], list[float]]:
        rows: list[int] = []
        scores: list[float] = []
        while len(rows) < count and (row := self.lowest()) != NOT_THERE:
            rows.append(row)
            scores.append(self.score(row))
            self.take(row)
        return rows, scores

    def _keys(self, rows: Rows) -> Ints:
        columns = self._columns
        scores = np.asarray(self._score(columns, self.shape, self._weights), np.float64)
        possible = self._allowed.mask & filters.ROOM.passes(columns, self.shape) & np.isfinite(scores)
        keys = keys_of(np.where(possible, scores, 0.0), columns.instances, self.steps)
        keys[~possible] = IMPOSSIBLE
        return keys


def _first(keys: Ints) -> int:
    """Where the first possible key stands; -1 without one."""
    if not len(keys):
        return NOT_THERE
    at = int((keys != IMPOSSIBLE).argmax())
    return at if keys[at] != IMPOSSIBLE else NOT_THERE


def _column(columns: Columns, name: str, dimension: int) -> Floats | Ints:
    if name == "instances":
        return columns.instances
    column: Floats | Ints = getattr(columns, name)[dimension]
    return column


def _view(fleet: Fleet, name: str, dimension: int) -> View:
    if name == "instances":
        return fleet.instances_view
    return (fleet.busy_views if name == "busy" else fleet.room_views)[dimension]
