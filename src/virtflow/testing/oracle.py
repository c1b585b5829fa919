"""Two plain ways to choose a host, slow and easy to believe: the fast engine must choose the same one, every time.

Both look at every host for every request. They share the formulas of the strategies with the engine and nothing else.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from virtflow.engine import strategies
from virtflow.engine.scores import Term, value
from virtflow.engine.strategies.random import draw
from virtflow.engine.strategies.strategy import Strategy
from virtflow.model.errors import InvalidStrategy
from virtflow.model.host import Host
from virtflow.model.plan import Request
from virtflow.model.pool import Pool
from virtflow.model.resources import DIMENSIONS
from virtflow.model.shape import Dedicated, Shape

#: as the engine bounds what it compares
INSTANCES_COMPARED_MAX = 2**20 - 1
STEPS_MAX = 2**42 - 1


class PlainHost:
    """A host as a bag of dictionaries."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.used = dict(host.used)
        self.instances = host.instances

    def room(self, dimension: str) -> int:
        return self.host.allocatable.get(dimension, 0) - self.used.get(dimension, 0)

    def count(self, shape: Shape, sign: int) -> None:
        for dimension, amount in shape.wants:
            self.used[dimension] = self.used.get(dimension, 0) + sign * amount
        self.instances += sign


class PlainFleet:
    """A dictionary of hosts, and a loop over all of them. `exact`: in fractions, to judge floating point by."""

    def __init__(
        self,
        hosts: Sequence[Host],
        pools: Sequence[Pool] = (),
        *,
        default_strategy: str = "least_loaded",
        exact: bool = True,
    ) -> None:
        self.hosts = {host.name: PlainHost(host) for host in hosts}
        self.pools = {pool.name: pool for pool in pools}
        self.default_strategy = default_strategy
        self.exact = exact
        self.cursors: dict[str, str] = {}

    def place(self, request: Request) -> str | None:
        """The name of the host chosen, whose room is taken; None when no host will do."""
        name = self.choose(request)
        if name is not None:
            self.hosts[name].count(request.shape, 1)
        return name

    def choose(self, request: Request) -> str | None:
        shape = request.shape
        try:
            strategy = strategy_of(shape, self.pools, self.default_strategy)
            weights = strategies.weigh(strategy, dict(shape.weights))
        except InvalidStrategy:
            return None
        possible = sorted(name for name, one in self.hosts.items() if self.allows(one, shape))
        if not possible:
            return None
        if strategy.name == "random":
            return possible[draw(request.key) * len(possible) >> 64]
        if strategy.name == "round_robin":
            last = self.cursors.get(shape.pool)
            turn = next((name for name in possible if last is None or name > last), possible[0])
            self.cursors[shape.pool] = turn
            return turn
        return min(possible, key=lambda name: (*self.rank(self.hosts[name], shape, strategy, weights), name))

    def allows(self, one: PlainHost, shape: Shape) -> bool:
        return allows(one.host, self.pools, shape) and all(one.room(name) >= amount for name, amount in shape.wants)

    def rank(self, one: PlainHost, shape: Shape, strategy: Strategy, weights: Mapping[str, float]) -> tuple[int, int]:
        """The score in steps, then the instances."""
        number = Fraction if self.exact else float
        wanted = shape.resources
        score = number(0)
        for term in strategy.terms:
            seen = value(
                term,
                total=number(one.host.total.get(term.dimension, 0)),
                room=number(one.room(term.dimension)),
                instances=one.instances,
                wanted=wanted.get(term.dimension, 0),
            )
            score += number(repr(weight_of(term, weights))) * seen
        steps = math.floor(score * int(strategy.steps) + number("0.5"))
        return max(-STEPS_MAX, min(steps, STEPS_MAX)), min(one.instances, INSTANCES_COMPARED_MAX)


class ScanFleet:
    """Arrays, and one look at all of them for each request. For strategies that are a weighted sum."""

    def __init__(
        self, hosts: Sequence[Host], pools: Sequence[Pool] = (), *, default_strategy: str = "least_loaded"
    ) -> None:
        self.hosts = sorted(hosts, key=lambda host: host.name)
        self.pools = {pool.name: pool for pool in pools}
        self.default_strategy = default_strategy
        names = sorted({*DIMENSIONS, *(name for host in hosts for name in (*host.total, *host.allocatable))})
        self.total = {name: np.array([host.total.get(name, 0) for host in self.hosts]) for name in names}
        self.room = {
            name: np.array([host.allocatable.get(name, 0) - host.used.get(name, 0) for host in self.hosts])
            for name in names
        }
        self.instances = np.array([host.instances for host in self.hosts])
        self._allowed: dict[Shape, NDArray[np.bool_]] = {}

    def place(self, request: Request) -> str | None:
        shape = request.shape
        if any(name not in self.room for name, _ in shape.wants):
            return None
        possible = self._allowed_hosts(shape)
        for name, amount in shape.wants:
            possible = possible & (self.room[name] >= amount)
        if not possible.any():
            return None
        row = self._lowest(possible, shape)
        for name, amount in shape.wants:
            self.room[name][row] -= amount
        self.instances[row] += 1
        return self.hosts[row].name

    def _lowest(self, possible: NDArray[np.bool_], shape: Shape) -> int:
        strategy = strategy_of(shape, self.pools, self.default_strategy)
        weights, wanted = strategies.weigh(strategy, dict(shape.weights)), shape.resources
        score = np.zeros(len(self.hosts))
        for term in strategy.terms:
            seen = value(
                term,
                total=self.total.get(term.dimension, 0),
                room=self.room.get(term.dimension, 0),
                instances=self.instances,
                wanted=wanted.get(term.dimension, 0),
            )
            score += weight_of(term, weights) * seen
        steps = np.clip(np.floor(score * strategy.steps + 0.5), -STEPS_MAX, STEPS_MAX)
        steps[~possible] = np.inf
        best = np.flatnonzero(steps == steps.min())
        return int(best[np.minimum(self.instances[best], INSTANCES_COMPARED_MAX).argmin()])

    def _allowed_hosts(self, shape: Shape) -> NDArray[np.bool_]:
        if shape not in self._allowed:
            self._allowed[shape] = np.array([allows(host, self.pools, shape) for host in self.hosts], np.bool_)
        return self._allowed[shape]


def strategy_of(shape: Shape, pools: Mapping[str, Pool], default: str) -> Strategy:
    pool = pools.get(shape.pool)
    return strategies.get(shape.strategy or (pool.spec.strategy if pool else "") or default)


def allows(host: Host, pools: Mapping[str, Pool], shape: Shape) -> bool:
    """Everything but room."""
    spec, pool = host.spec, pools.get(shape.pool)
    return (
        spec.pool == shape.pool
        and (pool is None or pool.spec.accepts_work)
        and not host.carries_virtflow
        and not host.cordoned
        and host.missing_since_ms is None
        and (shape.dedicated is not Dedicated.REQUIRED or spec.dedicated)
        and (shape.dedicated is not Dedicated.FORBIDDEN or not spec.dedicated)
        and all(key in spec.labels and spec.labels[key] == wanted for key, wanted in shape.labels)
        and (not shape.zone or spec.zone == shape.zone)
    )


def weight_of(term: Term, weights: Mapping[str, float]) -> float:
    return math.copysign(weights[term.setting], term.weight) if term.setting else term.weight
