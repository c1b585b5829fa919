"""What is kept between decisions, for the shapes used last and no more than memory allows."""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, TypeVar

from virtflow.engine.fleet import Fleet
from virtflow.engine.placer import Placer
from virtflow.engine.ranking import Allowed, Ranking, WholeRanking
from virtflow.engine.scores import Formula, Term, formula
from virtflow.engine.strategies.strategy import Strategy
from virtflow.engine.wanted import Wanted
from virtflow.model.errors import InvalidStrategy
from virtflow.model.limits import AMOUNT_MAX
from virtflow.model.shape import Shape

#: Shapes that are remembered: each costs about a kilobyte.
SHAPES_MAX: Final = 4096
#: Rankings that are kept, whatever the size of the fleet …
RANKINGS_MAX: Final = 1024
#: … and keys in all of them together: 8 bytes each.
KEYS_MAX: Final = 2**24
#: However large the fleet, so many rankings are kept.
RANKINGS_MIN: Final = 8

_Asked = TypeVar("_Asked", bound=Hashable)
_Kept = TypeVar("_Kept")


class Rankings:
    """Made when first asked for, forgotten when others were used more recently."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._limit = rankings_max(fleet)
        self._placers: OrderedDict[Shape, Placer | None] = OrderedDict()
        self._rankings: OrderedDict[Hashable, Ranking] = OrderedDict()
        self._allowed: OrderedDict[Hashable, Allowed] = OrderedDict()

    def of(self, shape: Shape) -> Placer | None:
        """The placer of a shape; None when the shape itself rules out every host."""
        return _kept(self._placers, shape, partial(self._placer, shape), SHAPES_MAX)

    def _placer(self, shape: Shape) -> Placer | None:
        if not is_sane(shape, self._fleet):
            return None
        try:
            strategy = self._fleet.strategy_of(shape)
            weights = self._fleet.weights_of(strategy, shape)
        except InvalidStrategy:
            return None  # `explain` says it to the one who asked
        numbers = {name: number for number, name in enumerate(self._fleet.dimensions)}
        scoring = formula(weighted(strategy, weights), shape, numbers)
        own = partial(self._ranking, shape, partial(self._own, shape, strategy, weights, scoring))
        sharing = shared = None
        if strategy.choose is None and strategy.score is None and not scoring.lefts:
            sharing = _Sharing((scoring, strategy.steps, said_of(shape)))
            shared = partial(self._ranking, sharing, partial(self._shared, shape, strategy, scoring))
        return Placer(self._fleet, shape, strategy, scoring, own=own, shared=shared, sharing=sharing)

    def _own(self, shape: Shape, strategy: Strategy, weights: dict[str, float], scoring: Formula) -> Ranking:
        allowed, wanted = self.allowed_for(shape), Wanted(self._fleet, shape)
        if strategy.score is None:
            return Ranking(self._fleet, scoring, strategy.steps, allowed, wanted)
        return WholeRanking(self._fleet, shape, strategy, allowed, wanted, score=strategy.score, weights=weights)

    def _shared(self, shape: Shape, strategy: Strategy, scoring: Formula) -> Ranking:
        return Ranking(self._fleet, scoring, strategy.steps, self.allowed_for(shape), None)

    def _ranking(self, asked: Hashable, make: Callable[[], Ranking]) -> Ranking:
        ranking = _kept(self._rankings, asked, make, self._limit)
        ranking.catch_up()
        return ranking

    def allowed_for(self, shape: Shape) -> Allowed:
        return _kept(self._allowed, said_of(shape), partial(Allowed, self._fleet, shape), self._limit)


class _Sharing:
    """A key that is equal to its like and computes its hash once."""

    __slots__ = ("_hash", "_what")

    def __init__(self, what: Hashable) -> None:
        self._what, self._hash = what, hash(what)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sharing) and self._what == other._what


def rankings_of(fleet: Fleet) -> Rankings:
    """The rankings this fleet keeps. They vanish when rows move or a pool changes."""
    kept = fleet.memory.get("rankings")
    if not isinstance(kept, Rankings):
        kept = fleet.memory["rankings"] = Rankings(fleet)
    return kept


def rankings_max(fleet: Fleet) -> int:
    """How many rankings of this fleet are kept."""
    return max(RANKINGS_MIN, min(RANKINGS_MAX, KEYS_MAX // max(1, len(fleet))))


def said_of(shape: Shape) -> Hashable:
    """What a shape says to the static filters."""
    return (shape.pool, shape.dedicated, shape.labels, shape.zone)


def is_sane(shape: Shape, fleet: Fleet) -> bool:
    """Whole positive amounts, of things that somebody has."""
    dimensions = fleet.columns.vocabulary.dimensions
    return not wrong_amounts(shape) and all(name in dimensions for name, _ in shape.wants)


def wrong_amounts(shape: Shape) -> list[str]:
    """Dimensions whose amount is not a whole positive number in range, or is said twice."""
    amounts = shape.resources
    twice = len(amounts) < len(shape.wants)
    return [
        name for name, amount in amounts.items() if twice or type(amount) is not int or not 0 < amount <= AMOUNT_MAX
    ]


def weighted(strategy: Strategy, weights: dict[str, float]) -> tuple[Term, ...]:
    """The strategy's terms with the weights that hold; a set weight keeps the direction of the term."""
    return tuple(
        Term(term.score, term.dimension, math.copysign(weights[term.setting], term.weight), term.setting)
        if term.setting
        else term
        for term in strategy.terms
    )


def _kept(kept: OrderedDict[_Asked, _Kept], asked: _Asked, make: Callable[[], _Kept], limit: int) -> _Kept:
    """The least recently used goes first."""
    if asked in kept:
        kept.move_to_end(asked)
        return kept[asked]
    made = kept[asked] = make()
    if len(kept) > limit:
        kept.popitem(last=False)
    return made
