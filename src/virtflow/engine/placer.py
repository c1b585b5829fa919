"""Places instances of one shape: on a ranking it shares with other shapes while that serves, else on its own."""

from collections.abc import Callable, Hashable, Mapping, Sequence

from virtflow.engine.columns import NOT_THERE
from virtflow.engine.fleet import Fleet
from virtflow.engine.ranking import Ranking
from virtflow.engine.scores import Formula
from virtflow.engine.strategies.strategy import Strategy
from virtflow.engine.wanted import Wanted
from virtflow.model.plan import Request
from virtflow.model.shape import Shape

#: gives a ranking, up to date
RankingSource = Callable[[], Ranking]
#: rows in order, and the scores they were chosen for
Placed = tuple[list[int], list[float]]


class Placer:
    """All that `decide` asks about one shape.

    Most strategies score a host the same whatever is to be placed. The shapes of a pool then share one ranking, which
    knows nothing of room: if its best host has room, no host is better. So a thousand live shapes that spread cost no
    more than one. A shape whose best host is too full goes on with a ranking of its own.
    """

    __slots__ = ("_fleet", "_own", "_shared", "_wanted", "formula", "shape", "sharing", "strategy")

    def __init__(
        self,
        fleet: Fleet,
        shape: Shape,
        strategy: Strategy,
        formula: Formula,
        *,
        own: RankingSource,
        shared: RankingSource | None,
        sharing: Hashable,
    ) -> None:
        """`sharing`: what shapes with one shared ranking have in common; None for a shape that shares none."""
        self.shape, self.strategy, self.formula, self.sharing = shape, strategy, formula, sharing
        self._fleet, self._own, self._shared = fleet, own, shared
        self._wanted = Wanted(fleet, shape)

    def place(self, run: Sequence[Request], cursors: dict[str, str]) -> Placed:
        """Place these requests of the shape in order, until one finds no host: then no later one would."""
        if self.strategy.choose is not None:
            return self._place_by_choice(run, cursors)
        if self._shared is None:
            return self._own().place(len(run), self._wanted)
        return self._place_on_shared(len(run), self._shared())

    def give(self, row: int) -> None:
        """Take back one placement there."""
        self._wanted.give(row)
        self._fleet.note_changes((row,))

    def ranking(self) -> Ranking:
        """The shape's own: whoever is possible in it could carry an instance now."""
        return self._own()

    def choose(self, request: Request, cursors: Mapping[str, str]) -> int:
        """The row that `place` would take; -1 when no host will do."""
        ranking = self._own()
        if self.strategy.choose is None:
            return ranking.lowest()
        try:
            row = self.strategy.choose(ranking, request, cursors.get(self.shape.pool))
            return row if ranking.is_possible(row) else NOT_THERE
        except Exception:  # a rule of somebody else that fails chooses nobody, and stops no batch
            return NOT_THERE

    def _place_on_shared(self, count: int, ranking: Ranking) -> Placed:
        rows, scores = ranking.place(count, self._wanted)
        if len(rows) < count and ranking.lowest() != NOT_THERE:
            self._shared = None  # the best host has no room, so look among those that have
            more_rows, more_scores = self._own().place(count - len(rows), self._wanted)
            return rows + more_rows, scores + more_scores
        return rows, scores

    def _place_by_choice(self, run: Sequence[Request], cursors: dict[str, str]) -> Placed:
        rows: list[int] = []
        for request in run:
            row = self.choose(request, cursors)
            if row == NOT_THERE:
                break
            rows.append(row)
            self._wanted.take(row)
            self._fleet.note_changes((row,))
            if self.strategy.takes_turns:
                cursors[self.shape.pool] = self._fleet.names[row]
        return rows, [0.0] * len(rows)
