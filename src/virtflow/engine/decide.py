"""Place every request, or refuse it: the same input gives the same plan.

Filters say which hosts are possible, the strategy which of them is best. Room is taken before the next request is
looked at. A request that cannot be placed delays and spoils nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from virtflow.engine.columns import NOT_THERE
from virtflow.engine.fleet import Fleet
from virtflow.engine.ranking import Ranking
from virtflow.engine.rankings import rankings_of
from virtflow.model.plan import Placement, Plan, Rejection, Request

Outcome = Placement | Rejection
#: pool -> name of the host that round robin chose last there
Cursors = Mapping[str, str]
NO_CURSORS: Cursors = MappingProxyType({})


def decide(fleet: Fleet, requests: Sequence[Request], *, cursors: Cursors = NO_CURSORS) -> Plan:
    """An outcome for each request, in order. What is placed is taken from `fleet`; cursors that moved are named."""
    round_ = _Round(fleet, cursors)
    for run in runs(requests):
        round_.place(run)
    moved = {pool: name for pool, name in round_.cursors.items() if cursors.get(pool) != name}
    return Plan(tuple(round_.outcomes), tuple(sorted(moved.items())))


def runs(requests: Sequence[Request]) -> Iterator[Sequence[Request]]:
    """Neighbours that share a gang, or that share a shape and have no gang."""
    start, count = 0, len(requests)
    while start < count:
        first, end = requests[start], start + 1
        if first.gang is not None:
            while end < count and requests[end].gang == first.gang:
                end += 1
        else:
            shape = first.shape
            while end < count and requests[end].shape is shape and requests[end].gang is None:
                end += 1
        yield requests[start:end]
        start = end


class _Round:
    """One batch on its way to a plan."""

    def __init__(self, fleet: Fleet, cursors: Cursors) -> None:
        self.fleet = fleet
        self.rankings = rankings_of(fleet)
        self.cursors = dict(cursors)
        self.outcomes: list[Outcome] = []

    def place(self, run: Sequence[Request]) -> None:
        if run[0].gang is not None:
            self.outcomes += self._place_gang(run)
            return
        ranking = self.rankings.of(run[0].shape)
        if ranking is None:
            self.outcomes += [Rejection(request) for request in run]
        elif ranking.strategy.choose is None:
            self.outcomes += self._place_best(run, ranking)
        else:
            self.outcomes += [self._place_chosen(request, ranking) for request in run]

    def _place_best(self, run: Sequence[Request], ranking: Ranking) -> list[Outcome]:
        names, ids = self.fleet.names, self.fleet.columns.ids
        rows, scores = ranking.place(len(run))
        placed: list[Outcome] = [
            Placement(request, host_id, names[row], score)
            for request, host_id, row, score in zip(run, ids[rows].tolist(), rows, scores, strict=False)
        ]
        # What one of them did not find, those of the same shape behind it do not find either.
        return placed + [Rejection(request) for request in run[len(rows) :]]

    def _place_chosen(self, request: Request, ranking: Ranking) -> Outcome:
        row = self._choose(request, ranking)
        if row == NOT_THERE:
            return Rejection(request)
        placement = Placement(request, int(self.fleet.columns.ids[row]), self.fleet.names[row], ranking.score(row))
        ranking.take(row)
        return placement

    def _choose(self, request: Request, ranking: Ranking) -> int:
        strategy, pool = ranking.strategy, request.shape.pool
        if strategy.choose is None:
            return ranking.lowest()
        row = strategy.choose(ranking, request, self.cursors.get(pool))
        if row != NOT_THERE and strategy.takes_turns:
            self.cursors[pool] = self.fleet.names[row]
        return row

    def _place_gang(self, gang: Sequence[Request]) -> list[Outcome]:
        """All of them or none: what the first ones took is given back when a later one finds nothing."""
        cursors = dict(self.cursors)
        placed: list[tuple[Ranking, int]] = []
        outcomes: list[Outcome] = []
        for request in gang:
            ranking = self.rankings.of(request.shape)
            outcome = Rejection(request) if ranking is None else self._place_chosen(request, ranking)
            if ranking is None or isinstance(outcome, Rejection):
                self._give_back(placed)
                self.cursors = cursors
                return [Rejection(member) for member in gang]
            placed.append((ranking, self.fleet.row(outcome.host)))
            outcomes.append(outcome)
        return outcomes

    def _give_back(self, placed: Sequence[tuple[Ranking, int]]) -> None:
        for ranking, row in reversed(placed):
            ranking.give(row)
