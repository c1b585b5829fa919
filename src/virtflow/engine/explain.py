"""Why a request found no host: how many each filter refused, the nearest miss, and the smallest changes that help."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from virtflow.engine import filters
from virtflow.engine.columns import NOT_THERE, Columns, Mask
from virtflow.engine.constraints import Constraint, constraints_of, refused_by_filter
from virtflow.engine.fleet import Fleet
from virtflow.engine.rankings import rankings_of, wrong_amounts
from virtflow.engine.relax import smallest_changes
from virtflow.model.errors import InvalidStrategy
from virtflow.model.explanation import Explanation, NearestMiss, Refusals
from virtflow.model.plan import Request
from virtflow.model.resources import in_words, shortfall
from virtflow.model.shape import Shape

#: What an explanation may say. Documented; a test holds the two equal.
CODES: Mapping[str, str] = MappingProxyType(
    {
        "invalid_strategy": "no strategy has the name that the request, its pool or the installation gives",
        "invalid_weights": "the strategy has no such weight, or the weight is out of range",
        "invalid_amount": "an amount is not a whole positive number in range",
        "no_such_pool": "no pool has the name that the request gives",
        "label_unsatisfied": "no host of the pool carries one of the labels",
        "zone_unsatisfied": "no host of the pool stands in the zone",
        "no_dedicated_hosts": "the pool has no dedicated host, and the request must have one",
        "only_dedicated_hosts": "the pool has only dedicated hosts, and the request must not have one",
        "constraints_unsatisfied": "each of labels, zone and dedicated is met by some host of the pool, all by none",
        "larger_than_any_host": "it would not fit on any host that may carry it, were the host empty",
        "strategy_failed": "the strategy failed, or scored none of the hosts that would do",
        "pool_closed": "the pool takes no new work",
        "only_self_hosts": "every host that would do carries virtflow itself",
        "no_available_hosts": "there is no host, or every one that would do is cordoned or missing",
        "insufficient_resources": "the hosts that may carry it have not enough room now",
        "gang_incomplete": "each member fits alone, but not all of them together",
        "fits_now": "there is room now; there was none when it was decided",
    }
)
#: Mistakes in the request: as it stands it will never fit.
MISTAKES = frozenset(
    {
        "invalid_strategy",
        "invalid_weights",
        "invalid_amount",
        "no_such_pool",
        "label_unsatisfied",
        "zone_unsatisfied",
        "no_dedicated_hosts",
        "only_dedicated_hosts",
        "constraints_unsatisfied",
        "larger_than_any_host",
        "strategy_failed",
    }
)


def explain(fleet: Fleet, shape: Shape, *, gang: int = 1) -> Explanation:
    """Why no host takes the shape now. `gang`: so many of it had to be placed together."""
    try:
        fleet.weights_of(fleet.strategy_of(shape), shape)
    except InvalidStrategy as error:
        return _explanation(error.error_code, f"{error.detail}; {error.remedy}")
    wrong = wrong_amounts(shape)
    if wrong:
        return _explanation("invalid_amount", f"{CODES['invalid_amount']}: {', '.join(wrong)}")
    if not len(fleet):
        return _explanation("no_available_hosts", "there is no host at all")
    return _explain_refusals(fleet, shape, gang)


def _explain_refusals(fleet: Fleet, shape: Shape, gang: int) -> Explanation:
    hosts = fleet.columns
    constraints = constraints_of(hosts, shape)
    refused = refused_by_filter(constraints)
    considered = ~refused.pop(filters.in_pool.name)
    code = _code(fleet, shape, considered, refused, gang)
    is_refused = code not in {"gang_incomplete", "fits_now"}
    counts = _counts(refused, considered)
    return Explanation(
        code=code,
        text=_text(code, shape, hosts, considered, constraints),
        kind="request" if code in MISTAKES else "capacity",
        hosts_considered=int(considered.sum()),
        filters=counts,
        nearest=_nearest(fleet, shape, constraints, considered) if is_refused else None,
        changes=smallest_changes(fleet, shape, constraints) if is_refused else (),
    )


# ── which code ────────────────────────────────────────────────────────────────────────────────────


def _code(fleet: Fleet, shape: Shape, in_pool: Mask, refused: Mapping[str, Mask], gang: int) -> str:
    """Mistakes first: who must change the request should not be told to wait."""
    if not in_pool.any():
        return "no_available_hosts" if shape.pool in fleet.pool_names else "no_such_pool"
    mistake = _unsatisfied(shape, in_pool, refused)
    if mistake:
        return mistake
    suited = in_pool & ~_any(refused, (filters.labels.name, filters.zone.name, filters.dedicated.name))
    suited &= ~refused[filters.not_self.name]
    if not suited.any():
        return "only_self_hosts"
    if not (suited & _fits_when_empty(fleet.columns, shape)).any():
        return "larger_than_any_host"
    if (suited & ~refused[filters.pool_accepts_work.name]).sum() == 0:
        return "pool_closed"
    working = suited & ~refused[filters.schedulable.name]
    if not working.any():
        return "no_available_hosts"
    if not (working & ~refused[filters.ROOM.name]).any():
        return "insufficient_resources"
    if not _has_a_choice(fleet, shape):
        return "strategy_failed"
    return "gang_incomplete" if gang > 1 else "fits_now"


def _unsatisfied(shape: Shape, in_pool: Mask, refused: Mapping[str, Mask]) -> str:
    attributes = (filters.labels.name, filters.zone.name, filters.dedicated.name)
    if (in_pool & ~_any(refused, attributes)).any():
        return ""
    for name, code in zip(attributes, ("label_unsatisfied", "zone_unsatisfied", ""), strict=True):
        if name in refused and not (in_pool & ~refused[name]).any():
            return code or ("no_dedicated_hosts" if shape.dedicated == "required" else "only_dedicated_hosts")
    return "constraints_unsatisfied"


def _has_a_choice(fleet: Fleet, shape: Shape) -> bool:
    """Strategies of others may fail although there is room."""
    placer = rankings_of(fleet).of(shape)
    return placer is not None and placer.choose(Request(b"", shape), {}) != NOT_THERE


def _fits_when_empty(hosts: Columns, shape: Shape) -> Mask:
    fits = np.ones(len(hosts), np.bool_)
    find = hosts.vocabulary.dimensions.find
    for dimension, amount in shape.wants:
        fits &= (hosts.limit[find(dimension)] if find(dimension) >= 0 else 0) >= amount
    return fits


def _any(refused: Mapping[str, Mask], names: Sequence[str]) -> Mask:
    mask = np.zeros(len(next(iter(refused.values()))), np.bool_)
    for name in names:
        if name in refused:
            mask |= refused[name]
    return mask


# ── counts, nearest miss, text ────────────────────────────────────────────────────────────────────


def _counts(refused: Mapping[str, Mask], considered: Mask) -> tuple[Refusals, ...]:
    how_many = np.sum(list(refused.values()), axis=0)
    counts = [
        Refusals(
            filter=name,
            hosts=int((mask & considered).sum()),
            alone=int((mask & considered & (how_many == 1)).sum()),
        )
        for name, mask in refused.items()
    ]
    return tuple(count for count in counts if count.hosts)


def _nearest(fleet: Fleet, shape: Shape, constraints: Sequence[Constraint], considered: Mask) -> NearestMiss:
    """The fewest violated constraints, then the smallest shortfall as a share of what is wanted, then the name."""
    among = np.flatnonzero(considered) if considered.any() else np.arange(len(fleet))
    violated = np.sum([one.refused[among] for one in constraints], axis=0)
    fewest = among[violated == violated.min()]
    short = np.zeros(len(fewest))
    for dimension, amount in shape.wants:
        short += np.maximum(amount - fleet.columns.room_of(dimension)[fewest], 0) / amount
    row = int(fewest[short.argmin()])
    host = fleet.host_at(row)
    refused_by = dict.fromkeys(one.filter for one in constraints if one.refused[row] and not one.dimension)
    return NearestMiss(host=host.name, short=shortfall(host.free, shape.resources), refused_by=tuple(refused_by))


def _text(code: str, shape: Shape, hosts: Columns, in_pool: Mask, constraints: Sequence[Constraint]) -> str:
    pool = f"pool {shape.pool}" if shape.pool else 'pool ""'
    if code == "insufficient_resources":
        lacks = [
            f"{count} lack {one.dimension}"
            for one in constraints
            if one.dimension and (count := int((one.refused & in_pool).sum()))
        ]
        return f"{CODES[code]}: of {int(in_pool.sum())} hosts in {pool}, {', '.join(lacks)}"
    if code == "larger_than_any_host":
        return f"{CODES[code]}: {_too_large(shape, hosts, in_pool & ~hosts.carries_virtflow)}"
    if code in {"label_unsatisfied", "zone_unsatisfied"}:
        return f"{CODES[code]}: {_not_there(code, shape, in_pool, constraints)}"
    if code == "only_self_hosts":
        return f"{CODES[code]}: {pool}; the settings self_hosts, self_label and node_name say which do"
    if code in {"no_such_pool", "pool_closed", "no_available_hosts"}:
        return f"{CODES[code]}: {pool}"
    return CODES[code]


def _too_large(shape: Shape, hosts: Columns, in_pool: Mask) -> str:
    find = hosts.vocabulary.dimensions.find
    largest = {name: int(hosts.limit[find(name)][in_pool].max()) if find(name) >= 0 else 0 for name in shape.resources}
    beyond = [
        f"{in_words(name, amount)} wanted, {in_words(name, largest[name])} is the most"
        for name, amount in shape.wants
        if amount > largest[name]
    ]
    return "; ".join(beyond) or "no host has all of it together"


def _not_there(code: str, shape: Shape, in_pool: Mask, constraints: Sequence[Constraint]) -> str:
    if code == "zone_unsatisfied":
        return shape.zone
    missing = [one.label for one in constraints if one.label is not None and one.refused[in_pool].all()]
    return ", ".join(f"{key}={value}" for key, value in missing or shape.labels)


def _explanation(code: str, text: str) -> Explanation:
    return Explanation(code=code, text=text, kind="request" if code in MISTAKES else "capacity")
