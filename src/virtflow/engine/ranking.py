"""Hosts in the order one way of scoring puts them: a key for each, lowest first, kept up to date, not computed anew.

Keys stand in blocks with the minimum of each block beside them, so the best host is found by looking at the minima and
then at one block. Placing an instance changes one key. What others changed meanwhile is in the fleet's list of changes,
and a ranking catches up with it when it is next used: host by host for a few changes, all at once for many.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from virtflow.engine import filters
from virtflow.engine.columns import NOT_THERE, Columns, Floats, Ints, Mask, view
from virtflow.engine.fleet import Fleet
from virtflow.engine.keys import IMPOSSIBLE, INSTANCE_BITS, key_of, keys_of
from virtflow.engine.scores import Formula
from virtflow.engine.strategies.strategy import Strategy, WholeScore
from virtflow.engine.wanted import Wanted
from virtflow.model.shape import Shape

BLOCK_BITS: Final = 7
BLOCK: Final = 1 << BLOCK_BITS
#: more changes than that are caught up with all at once
ONE_BY_ONE_MAX: Final = 20
#: when more than this share of the hosts changed, all keys are computed anew
ANEW_SHARE: Final = 0.25


class Allowed:
    """The hosts that the static filters let pass, shared by every shape that says the same to them."""

    __slots__ = ("_fleet", "_seen", "_shape", "mask", "view")

    def __init__(self, fleet: Fleet, shape: Shape) -> None:
        self._fleet, self._shape = fleet, shape
        self.mask: Mask = filters.allowed(fleet.columns, shape)
        self.view = view(self.mask)
        self._seen = len(fleet.attribute_changes)

    def catch_up(self) -> None:
        changes = self._fleet.attribute_changes
        if self._seen == len(changes):
            return
        rows = self._fleet.distinct(changes[self._seen :])
        self.mask[rows] = filters.allowed(self._fleet.columns.at(rows), self._shape)
        self._seen = len(changes)


class Ranking:
    """With `wanted`, hosts without room for it are impossible. Without, any number of shapes may share the ranking."""

    __slots__ = (
        "_allowed",
        "_columns",
        "_counts",
        "_fleet",
        "_instances",
        "_keys_view",
        "_lefts",
        "_minima_view",
        "_offset",
        "_seen",
        "_steps",
        "_views",
        "_views_left",
        "_wanted",
        "keys",
        "minima",
    )

    def __init__(self, fleet: Fleet, formula: Formula, steps: float, allowed: Allowed, wanted: Wanted | None) -> None:
        self._fleet, self._allowed, self._wanted, self._steps = fleet, allowed, wanted, steps
        self._offset, self._instances = formula.offset, fleet.instances_view
        columns = fleet.columns
        self._columns = [(one.weight, columns.scored(one.column, one.dimension)) for one in formula.columns]
        self._views = [(weight, view(column)) for weight, column in self._columns]
        self._lefts = [
            (one.weight, columns.room[one.dimension], columns.total[one.dimension], one.wanted) for one in formula.lefts
        ]
        self._views_left = [(weight, view(room), view(total), amount) for weight, room, total, amount in self._lefts]
        blocks = max(1, -(-len(fleet) // BLOCK))
        self.keys: Ints = np.full(blocks * BLOCK, IMPOSSIBLE, np.int64)
        self.minima: Ints = np.full(blocks, IMPOSSIBLE, np.int64)
        self._keys_view, self._minima_view = view(self.keys), view(self.minima)
        # possible hosts per block; None = not counted since many keys changed at once
        self._counts: Ints | None = None
        self._rank_all()

    # ── choosing and placing ──────────────────────────────────────────────────────────────────────

    def lowest(self) -> int:
        """The row with the lowest key, the first of equals; -1 when no host is possible."""
        block = int(self.minima.argmin())
        return NOT_THERE if self._minima_view[block] == IMPOSSIBLE else self._lowest_in(block)

    def score(self, row: int) -> float:
        """The score of a possible host, as exact as scores are compared."""
        return float((self._keys_view[row] >> INSTANCE_BITS) / self._steps)

    def place(self, count: int, wanted: Wanted) -> tuple[list[int], list[float]]:
        """Place so many, one after the other, each on the best host of its moment: the rows and their scores.

        Ends early when no host is possible, or, in a shared ranking, when the best one has no room.
        """
        rows: list[int] = []
        scores: list[float] = []
        keys, keys_view, minima, minima_view = self.keys, self._keys_view, self.minima, self._minima_view
        shared, steps, key_of_row = self._wanted is None, self._steps, self._key_whatever_room
        while count:
            block = int(minima.argmin())
            lowest = minima_view[block]
            if lowest == IMPOSSIBLE:
                break
            start = block << BLOCK_BITS
            part = keys[start : start + BLOCK]
            row = start + int(part.argmin())
            if shared and not wanted.fits(row):
                break
            key = lowest
            while count and key <= lowest:  # as long as it only becomes better, nobody else can pass it
                lowest = key
                rows.append(row)
                scores.append((lowest >> INSTANCE_BITS) / steps)
                count -= 1
                fits = wanted.take(row)
                key = key_of_row(row) if fits or shared else IMPOSSIBLE
                if not fits:
                    break
            keys_view[row] = key
            minima_view[block] = keys_view[start + int(part.argmin())]
        self._counts = None
        self._fleet.note_changes(rows)
        self._seen = self._fleet.changes_end
        return rows, scores

    # ── what rules of choice may ask ──────────────────────────────────────────────────────────────

    def first_from(self, row: int) -> int:
        """The first possible row at or after `row`, going round; -1 when none is possible."""
        if row < len(self._fleet) and self._keys_view[row] != IMPOSSIBLE:
            return row
        block = row >> BLOCK_BITS
        found = _first(self.keys[row : (block + 1) << BLOCK_BITS])
        if found != NOT_THERE:
            return row + found
        found = _first(self.minima[block + 1 :])
        if found != NOT_THERE:
            return self._first_in(block + 1 + found)
        found = _first(self.minima[: block + 1])
        return NOT_THERE if found == NOT_THERE else self._first_in(found)

    def nth(self, draw: int) -> int:
        """The possible row at rank `draw` × count / 2**64; -1 when none is possible."""
        if self._counts is None:
            self._counts = np.count_nonzero(self.keys.reshape(-1, BLOCK) != IMPOSSIBLE, axis=1)
        up_to = np.cumsum(self._counts)
        rank = (draw * int(up_to[-1])) >> 64
        block = int(np.searchsorted(up_to, rank, side="right"))
        if block == len(up_to):
            return NOT_THERE
        start = block << BLOCK_BITS
        inside = rank - int(up_to[block] - self._counts[block])
        return start + int(np.flatnonzero(self.keys[start : start + BLOCK] != IMPOSSIBLE)[inside])

    def is_possible(self, row: int) -> bool:
        return 0 <= row < len(self._fleet) and bool(self._keys_view[row] != IMPOSSIBLE)

    def row_after(self, name: str) -> int:
        return self._fleet.row_after(name)

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
        if len(changes) <= ONE_BY_ONE_MAX:
            self._rank_one_by_one(set(changes))
            return
        rows = fleet.distinct(changes)
        if len(rows) <= ONE_BY_ONE_MAX:
            self._rank_one_by_one(rows.tolist())
        elif len(rows) > ANEW_SHARE * len(fleet):
            self._rank_all()
        else:
            self._rank(rows)

    def _rank_all(self) -> None:
        self._seen, self._counts = self._fleet.changes_end, None
        self._allowed.catch_up()
        self.keys[: len(self._fleet)] = self._keys(None)
        np.min(self.keys.reshape(-1, BLOCK), axis=1, out=self.minima)

    def _rank_one_by_one(self, rows: Iterable[int]) -> None:
        for row in rows:
            self._set_key(row, self._key(row))

    def _rank(self, rows: Ints) -> None:
        self._counts = None
        self.keys[rows] = self._keys(rows)
        table = self.keys.reshape(-1, BLOCK)
        if len(rows) < len(self.minima):
            blocks = rows >> BLOCK_BITS
            self.minima[blocks] = table[blocks].min(axis=1)
        else:
            np.min(table, axis=1, out=self.minima)

    def _set_key(self, row: int, key: int) -> None:
        old = self._keys_view[row]
        if key == old:
            return
        self._keys_view[row] = key
        block = row >> BLOCK_BITS
        if self._counts is not None:
            self._counts[block] += (old == IMPOSSIBLE) - (key == IMPOSSIBLE)
        minimum = self._minima_view[block]
        if key < minimum:
            self._minima_view[block] = key
        elif old == minimum:
            self._minima_view[block] = self._keys_view[self._lowest_in(block)]

    def _lowest_in(self, block: int) -> int:
        start = block << BLOCK_BITS
        return start + int(self.keys[start : start + BLOCK].argmin())

    def _first_in(self, block: int) -> int:
        start = block << BLOCK_BITS
        return start + _first(self.keys[start : start + BLOCK])

    # ── keys: the same arithmetic for many hosts and for one ──────────────────────────────────────

    def _keys(self, rows: Ints | None) -> Ints:
        """Of these rows; None = of all."""
        possible = _at(self._allowed.mask, rows)
        if self._wanted is not None:
            for room, amount in self._wanted.columns:
                possible = possible & (_at(room, rows) >= amount)
        scores: Floats = np.zeros(len(possible))
        scores += self._offset
        for weight, column in self._columns:
            scores += weight * _at(column, rows)
        for weight, room, total, wanted in self._lefts:
            scores += weight * ((_at(room, rows) - wanted) / np.maximum(_at(total, rows), 1))
        keys = keys_of(scores, _at(self._fleet.columns.instances, rows), self._steps)
        keys[~possible] = IMPOSSIBLE
        return keys

    def _key(self, row: int) -> int:
        if not self._allowed.view[row] or (self._wanted is not None and not self._wanted.fits(row)):
            return IMPOSSIBLE
        return self._key_whatever_room(row)

    def _key_whatever_room(self, row: int) -> int:
        score = self._offset
        for weight, column in self._views:
            score += weight * column[row]
        for weight, room, total, wanted in self._views_left:
            score += weight * ((room[row] - wanted) / (total[row] or 1))
        return key_of(score, self._instances[row], self._steps)


class WholeRanking(Ranking):
    """For strategies whose score is any function of arrays: all anew for each decision. Slow, and always right."""

    __slots__ = ("_score", "_shape", "_weights")

    def __init__(
        self,
        fleet: Fleet,
        shape: Shape,
        strategy: Strategy,
        allowed: Allowed,
        wanted: Wanted,
        *,
        score: WholeScore,
        weights: Mapping[str, float],
    ) -> None:
        self._shape, self._score, self._weights = shape, score, weights
        super().__init__(fleet, Formula(), strategy.steps, allowed, wanted)

    def catch_up(self) -> None:
        self._rank_all()

    def place(self, count: int, wanted: Wanted) -> tuple[list[int], list[float]]:
        rows: list[int] = []
        scores: list[float] = []
        while len(rows) < count and (row := self.lowest()) != NOT_THERE:
            rows.append(row)
            scores.append(self.score(row))
            wanted.take(row)
            self._fleet.note_changes((row,))
            self._rank_all()
        return rows, scores

    def _keys(self, rows: Ints | None) -> Ints:
        columns = self._fleet.columns
        scores = whole_scores(self._score, columns, self._shape, self._weights)
        possible = self._allowed.mask & filters.ROOM.passes(columns, self._shape) & np.isfinite(scores)
        keys = keys_of(np.where(possible, scores, 0.0), columns.instances, self._steps)
        keys[~possible] = IMPOSSIBLE
        return keys


def whole_scores(score: WholeScore, columns: Columns, shape: Shape, weights: Mapping[str, float]) -> Floats:
    """What a function of somebody else says. Where it fails or says no number, no host is possible."""
    try:
        scores = np.asarray(score(columns, shape, weights), np.float64)
    except Exception:  # a poisonous strategy is refused and explained, and never stops a batch
        return np.full(len(columns), np.nan)
    return scores if scores.shape == (len(columns),) else np.full(len(columns), np.nan)


def _at(column: Any, rows: Ints | None) -> Any:
    return column if rows is None else column[rows]


def _first(keys: Ints) -> int:
    """Where the first possible key stands; -1 without one."""
    if not len(keys):
        return NOT_THERE
    at = int((keys != IMPOSSIBLE).argmax())
    return at if keys[at] != IMPOSSIBLE else NOT_THERE
