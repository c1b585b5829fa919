"""The rankings that are kept between decisions: the shapes used last, and no more than memory allows."""

import math
from collections import OrderedDict
from typing import Final, TypeVar

from virtflow.engine.fleet import Fleet
from virtflow.engine.ranking import Allowed, Ranking, WholeRanking
from virtflow.engine.scores import Term, formula
from virtflow.engine.strategies.strategy import Strategy
from virtflow.model.errors import InvalidStrategy
from virtflow.model.limits import AMOUNT_MAX
from virtflow.model.shape import Shape

#: Shapes whose rankings are kept, whatever the size of the fleet …
RANKINGS_MAX: Final = 1024
#: … and keys in all of them together: 8 bytes each.
KEYS_MAX: Final = 2**24
#: However large the fleet, so many shapes are kept.
RANKINGS_MIN: Final = 8

_Asked = TypeVar("_Asked")
_Kept = TypeVar("_Kept")


class Rankings:
    """A ranking for each shape, made when it is first asked for, forgotten when others were used more recently."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._rankings: OrderedDict[Shape, Ranking | None] = OrderedDict()
        self._allowed: OrderedDict[object, Allowed] = OrderedDict()
        self._limit = max(RANKINGS_MIN, min(RANKINGS_MAX, KEYS_MAX // max(1, len(fleet))))

    def of(self, shape: Shape) -> Ranking | None:
        """The shape's ranking, up to date; None when the shape itself rules out every host."""
        if shape in self._rankings:
            self._rankings.move_to_end(shape)
            ranking = self._rankings[shape]
            if ranking is not None:
                ranking.catch_up()
            return ranking
        return _keep(self._rankings, shape, self._make(shape), self._limit)

    def _make(self, shape: Shape) -> Ranking | None:
        if not is_sane(shape, self._fleet):
            return None
        try:
            strategy = self._fleet.strategy_of(shape)
            weights = self._fleet.weights_of(strategy, shape)
        except InvalidStrategy:
            return None  # `explain` says it to the one who asked
        allowed = self._allowed_for(shape)
        if strategy.score is not None:
            return WholeRanking(self._fleet, shape, strategy, allowed, score=strategy.score, weights=weights)
        numbers = {name: number for number, name in enumerate(self._fleet.dimensions)}
        terms = weighted(strategy, weights)
        return Ranking(self._fleet, shape, strategy, formula(terms, shape, numbers), allowed)

    def _allowed_for(self, shape: Shape) -> Allowed:
        said = (shape.pool, shape.dedicated, shape.labels, shape.zone)
        if said in self._allowed:
            self._allowed.move_to_end(said)
            return self._allowed[said]
        return _keep(self._allowed, said, Allowed(self._fleet, shape), self._limit)


def rankings_of(fleet: Fleet) -> Rankings:
    """The rankings this fleet keeps. They vanish when rows move or a pool changes."""
    kept = fleet.memory.get("rankings")
    if not isinstance(kept, Rankings):
        kept = fleet.memory["rankings"] = Rankings(fleet)
    return kept


def is_sane(shape: Shape, fleet: Fleet) -> bool:
    """Whole positive amounts, of things that somebody has."""
    dimensions = fleet.columns.vocabulary.dimensions
    return all(name in dimensions and is_amount(amount) for name, amount in shape.wants)


def is_amount(amount: object) -> bool:
    return type(amount) is int and 0 < amount <= AMOUNT_MAX


def weighted(strategy: Strategy, weights: dict[str, float]) -> tuple[Term, ...]:
    """The strategy's terms with the weights that hold; a set weight keeps the direction of the term."""
    return tuple(
        Term(term.score, term.dimension, math.copysign(weights[term.setting], term.weight), term.setting)
        if term.setting
        else term
        for term in strategy.terms
    )


def _keep(kept: OrderedDict[_Asked, _Kept], asked: _Asked, value: _Kept, limit: int) -> _Kept:
    kept[asked] = value
    if len(kept) > limit:
        kept.popitem(last=False)
    return value
