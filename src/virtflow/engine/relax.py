"""The smallest changes of a refused request that would let it in, and how many hosts each unlocks.

Every host violates some set of constraints. The sets that contain no other are exactly the minimal relaxations: drop
one of them and the hosts that violate just that set are open, drop less and no host is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from virtflow.engine import filters
from virtflow.engine.columns import Columns, Ints
from virtflow.engine.constraints import Constraint, minimal, violations
from virtflow.engine.fleet import Fleet
from virtflow.model.errors import InvalidStrategy
from virtflow.model.explanation import Change
from virtflow.model.resources import CPU, MEMORY, UNITS, VMS
from virtflow.model.shape import Dedicated, Shape
from virtflow.model.shape import shape as make_shape

#: More changes than that help nobody.
CHANGES_MAX = 8
#: A request without any of these is no VM any more.
_INDISPENSABLE = frozenset({CPU, MEMORY, VMS})
#: What only an operator can change: code and text of the change.
_BY_OPERATORS = {
    filters.schedulable.name: ("uncordon", "hosts taken back into service"),
    filters.not_self.name: ("release_self_hosts", "hosts that carry virtflow itself let in by its settings"),
    filters.pool_accepts_work.name: ("open_pool", "the pool open for new work"),
    VMS: ("raise_quota", "a higher quota of VMs per host"),
}


def smallest_changes(fleet: Fleet, shape: Shape, constraints: Sequence[Constraint]) -> tuple[Change, ...]:
    """Fewest constraints first, then most hosts. A change with a `request` patch places the request for certain."""
    sets = violations(constraints)
    by_operators = sum(1 << bit for bit, one in enumerate(constraints) if _operator_key(one) in _BY_OPERATORS)
    found: list[tuple[int, Change]] = []
    for bits in minimal([bits for bits in sets if not bits & by_operators]):
        parts = [one for bit, one in enumerate(constraints) if bits >> bit & 1]
        found += [(bits.bit_count(), change) for change in _changes(fleet, shape, parts, sets[bits])]
    for bit, one in enumerate(constraints):
        if by_operators >> bit & 1 and 1 << bit in sets:
            code, text = _BY_OPERATORS[_operator_key(one)]
            found.append((1, _change(code, text, len(sets[1 << bit]), {})))
    found.sort(key=lambda item: (item[0], -item[1].hosts, item[1].text))
    return tuple(change for _, change in found[:CHANGES_MAX])


def patched(shape: Shape, request: Mapping[str, Any]) -> Shape:
    """The shape after a change, whose `request` is a JSON merge patch (RFC 7396) of the request's fields."""
    labels = {**dict(shape.labels), **request.get("labels", {})}
    return make_shape(
        {**shape.resources, **request.get("resources", {})},
        pool=request.get("pool", shape.pool),
        dedicated=Dedicated(request.get("dedicated", shape.dedicated)),
        labels={key: value for key, value in labels.items() if value is not None},
        zone=request.get("zone", shape.zone) or "",
        strategy=shape.strategy,
        weights=dict(shape.weights),
    )


def _operator_key(one: Constraint) -> str:
    return one.dimension or one.filter


def _changes(fleet: Fleet, shape: Shape, parts: Sequence[Constraint], rows: Ints) -> Iterator[Change]:
    """The variants of dropping these constraints: for each pool that would do, by each amount that would do."""
    texts, codes, patch = _dropped(parts)
    for pool, there in _pools(fleet, shape, parts, rows):
        dimensions = [one.dimension for one in parts if one.dimension]
        for less, hosts in _rungs(fleet.columns, shape, dimensions, there):
            resources = {name: shape.resources[name] - amount for name, amount in less.items()}
            words = [*texts, *(_less_in_words(name, less[name], resources[name]) for name in sorted(less))]
            names = [*codes, *("less" for _ in less)]
            full = {**patch, **({"resources": resources} if resources else {})}
            if pool is not None:
                words, names, full = [_pool_in_words(pool), *words], ["other_pool", *names], {**full, "pool": pool}
            yield _change(names[0] if len({*names}) == 1 else "combined", " and ".join(words), hosts, full)


def _dropped(parts: Iterable[Constraint]) -> tuple[list[str], list[str], dict[str, Any]]:
    """Texts, codes and patch of everything but pool and room."""
    texts: list[str] = []
    codes: list[str] = []
    patch: dict[str, Any] = {}
    for one in parts:
        if one.label is not None:
            key, value = one.label
            patch.setdefault("labels", {})[key] = None
            texts.append(f"without label {key}={value}")
            codes.append("drop_label")
        elif one.filter == filters.zone.name:
            patch["zone"] = ""
            texts.append("in any zone")
            codes.append("drop_zone")
        elif one.filter == filters.dedicated.name:
            patch["dedicated"] = Dedicated.ALLOWED.value
            texts.append("dedicated allowed")
            codes.append("dedicated")
    return texts, codes, patch


def _pools(fleet: Fleet, shape: Shape, parts: Sequence[Constraint], rows: Ints) -> list[tuple[str | None, Ints]]:
    """The rows by the pool to name instead, or all of them under None when the pool may stay."""
    if all(one.filter != filters.in_pool.name for one in parts):
        return [(None, rows)]
    words = fleet.columns.vocabulary.pools.words
    numbers = fleet.columns.pool[rows]
    pools = {words[number]: rows[numbers == number] for number in np.unique(numbers).tolist()}
    return [(name, there) for name, there in sorted(pools.items()) if _has_strategy(fleet, shape, name)]


def _has_strategy(fleet: Fleet, shape: Shape, pool: str) -> bool:
    """A pool may name a strategy that nobody knows, or one without the weights of this request."""
    there = make_shape(shape.resources, pool=pool, strategy=shape.strategy, weights=dict(shape.weights))
    try:
        fleet.weights_of(fleet.strategy_of(there), there)
    except InvalidStrategy:
        return False
    return True


def _rungs(hosts: Columns, shape: Shape, dimensions: Sequence[str], rows: Ints) -> Iterator[tuple[dict[str, int], int]]:
    """How much less of what unlocks how many of these hosts: the smallest step, and a larger one if it pays."""
    if not dimensions:
        yield {}, len(rows)
        return
    wanted = np.array([shape.resources[name] for name in dimensions])
    floor = np.array([1 if name in _INDISPENSABLE else 0 for name in dimensions])
    short = wanted - np.stack([hosts.room_of(name)[rows] for name in dimensions], axis=1)
    short = short[(wanted - short >= floor).all(axis=1)]
    if not len(short):
        return
    order = np.argsort((short / wanted).sum(axis=1), kind="stable")
    first = short[order[0]]
    opened = int((short <= first).all(axis=1).sum())
    yield dict(zip(dimensions, first.tolist(), strict=True)), opened
    larger = np.maximum(first, short[order[len(order) // 2]])
    opened_more = int((short <= larger).all(axis=1).sum())
    if opened_more >= 2 * opened:
        yield dict(zip(dimensions, larger.tolist(), strict=True)), opened_more


def _pool_in_words(pool: str) -> str:
    return f"pool {pool}" if pool else 'pool ""'


def _less_in_words(dimension: str, less: int, remaining: int) -> str:
    if remaining == 0:
        return f"without {dimension}"
    if dimension == CPU:
        return f"{less / 1000:g} core{'' if less == 1000 else 's'} less cpu"
    return " ".join(word for word in (str(less), UNITS.get(dimension, ""), "less", dimension) if word)


def _change(code: str, text: str, hosts: int, request: dict[str, object]) -> Change:
    return Change(code=code, text=f"{text}: {hosts} host{'' if hosts == 1 else 's'}", hosts=hosts, request=request)
