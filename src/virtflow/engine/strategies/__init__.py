"""How to choose among the hosts that would do: the list of strategies, and the door for those of others."""

from collections.abc import Mapping
from typing import Any

from virtflow.engine.keys import STEPS
from virtflow.engine.strategies.best_fit import best_fit, best_fit_absolute
from virtflow.engine.strategies.by_count import distribute_load, optimize_utilization
from virtflow.engine.strategies.hybrid import hybrid
from virtflow.engine.strategies.least_loaded import cpu, least_loaded, memory
from virtflow.engine.strategies.random import random
from virtflow.engine.strategies.round_robin import round_robin
from virtflow.engine.strategies.strategy import Strategy
from virtflow.engine.strategies.virtflow import virtflow, virtflow_packed
from virtflow.model.errors import InvalidStrategy

#: Larger ones say nothing that smaller ones could not, and would leave the range in which scores are compared.
WEIGHT_MAX = 1000.0

BUILT_IN: tuple[Strategy, ...] = (
    least_loaded,
    best_fit,
    best_fit_absolute,
    cpu,
    memory,
    hybrid,
    round_robin,
    random,
    distribute_load,
    optimize_utilization,
    virtflow,
    virtflow_packed,
)

_known: dict[str, Strategy] = {strategy.name: strategy for strategy in BUILT_IN}


def register(strategy: Strategy) -> None:
    """Make a strategy of somebody else known, before the first decision. Ours cannot be replaced."""
    if any(strategy.name == ours.name for ours in BUILT_IN):
        raise InvalidStrategy(f"strategy {strategy.name!r} is one of ours; give yours another name")
    if sum((bool(strategy.terms), strategy.choose is not None, strategy.score is not None)) != 1:
        raise InvalidStrategy(f"strategy {strategy.name!r} must have exactly one of terms, choose and score")
    if not all(abs(term.weight) <= WEIGHT_MAX for term in strategy.terms) or not 0 < strategy.steps <= STEPS:
        raise InvalidStrategy(
            f"strategy {strategy.name!r}: a weight is beyond {WEIGHT_MAX:g}, or steps beyond {STEPS:g}"
        )
    _known[strategy.name] = strategy


def names() -> tuple[str, ...]:
    return tuple(_known)


def get(name: str) -> Strategy:
    found = _known.get(name)
    if found is None:
        raise InvalidStrategy(f"no strategy is called {name!r}", remedy=f"one of: {', '.join(sorted(_known))}")
    return found


def describe() -> tuple[dict[str, Any], ...]:
    """Name, purpose, formula and settable weights of each, for documents and the API."""
    return tuple(strategy.described() for strategy in _known.values())


def weigh(strategy: Strategy, *settings: Mapping[str, float]) -> dict[str, float]:
    """The weights that hold when each of `settings` overrules the one before. Refuses what cannot be set."""
    weights = strategy.weights
    for given in settings:
        for name, weight in given.items():
            if name not in weights:
                raise InvalidStrategy(
                    f"strategy {strategy.name!r} has no weight {name!r}",
                    code="invalid_weights",
                    remedy=f"it has: {', '.join(sorted(weights)) or 'none'}",
                )
            if not 0.0 <= weight <= WEIGHT_MAX:
                raise InvalidStrategy(
                    f"weight {name!r} is {weight!r}", code="invalid_weights", remedy=f"0 to {WEIGHT_MAX:g}"
                )
            weights[name] = float(weight)
    return weights
