"""The dry run: what `decide` would choose, who came next, and what each score was made of."""

from collections.abc import Iterable, Iterator

import numpy as np

from virtflow.engine.columns import NOT_THERE
from virtflow.engine.decide import NO_CURSORS, Cursors, decide
from virtflow.engine.explain import explain
from virtflow.engine.fleet import Fleet
from virtflow.engine.keys import IMPOSSIBLE
from virtflow.engine.placer import Placer
from virtflow.engine.rankings import rankings_of, weighted
from virtflow.engine.scores import value
from virtflow.model.errors import InvalidStrategy
from virtflow.model.plan import Candidate, Preview, Request, ScorePart
from virtflow.model.shape import Shape

#: More runners-up than that are not shown.
RUNNERS_UP_MAX = 50


def preview(fleet: Fleet, request: Request, *, runners_up: int = 3, cursors: Cursors = NO_CURSORS) -> Preview:
    """The same filters and scores as `decide`, on the same rankings. Takes no room."""
    placer = rankings_of(fleet).of(request.shape)
    row = NOT_THERE if placer is None else placer.choose(request, cursors)
    if placer is None or row == NOT_THERE:
        return Preview(_strategy_name(fleet, request.shape), None, explanation=explain(fleet, request.shape))
    ranking = placer.ranking()
    others = _next_best(fleet, placer, row, min(runners_up, RUNNERS_UP_MAX))
    return Preview(
        strategy=placer.strategy.name,
        winner=_candidate(fleet, placer, row),
        runners_up=tuple(_candidate(fleet, placer, other) for other in others),
        hosts_possible=int(np.count_nonzero(ranking.keys != IMPOSSIBLE)),
    )


def preview_all(
    fleet: Fleet, requests: Iterable[Request], *, runners_up: int = 3, cursors: Cursors = NO_CURSORS
) -> list[Preview]:
    """One after the other: each sees the room that those before it took. `fleet` is left alone."""
    return list(preview_each(fleet, requests, runners_up=runners_up, cursors=cursors))


def preview_each(
    fleet: Fleet, requests: Iterable[Request], *, runners_up: int = 3, cursors: Cursors = NO_CURSORS
) -> Iterator[Preview]:
    """The same, one at a time, for callers who let others have their turn in between."""
    trial, cursors = fleet.fork(), dict(cursors)
    for request in requests:
        seen = preview(trial, request, runners_up=runners_up, cursors=cursors)
        yield seen
        if seen.winner is not None:
            cursors.update(decide(trial, (request,), cursors=cursors).cursors)


def _next_best(fleet: Fleet, placer: Placer, winner: int, count: int) -> list[int]:
    """The rows that would follow: by key, or in turn for strategies that look at no score."""
    order = placer.ranking().keys.copy()
    if placer.strategy.choose is not None:
        possible = np.flatnonzero(order != IMPOSSIBLE)
        order[possible] = (possible - winner) % len(fleet)
    order[winner] = IMPOSSIBLE
    nearest = np.argsort(order, kind="stable")[:count]
    return [int(row) for row in nearest if order[row] != IMPOSSIBLE]


def _candidate(fleet: Fleet, placer: Placer, row: int) -> Candidate:
    host = fleet.host_at(row)
    return Candidate(
        host=host.name,
        score=0.0 if placer.strategy.choose is not None else placer.ranking().score(row),
        parts=_parts(fleet, placer, row),
        instances=host.instances,
        free=host.free,
    )


def _parts(fleet: Fleet, placer: Placer, row: int) -> tuple[ScorePart, ...]:
    """weight × value over the parts adds up to the score."""
    columns, wanted = fleet.columns, placer.shape.resources
    parts = []
    for term in weighted(placer.strategy, fleet.weights_of(placer.strategy, placer.shape)):
        number = columns.vocabulary.dimensions.find(term.dimension) if term.dimension else 0
        if term.weight == 0.0 or number == NOT_THERE:
            continue
        seen = value(
            term,
            total=int(columns.total[number, row]),
            room=int(columns.room[number, row]),
            instances=int(columns.instances[row]),
            wanted=wanted.get(term.dimension, 0),
        )
        parts.append(ScorePart(term.name, term.weight, float(seen)))
    return tuple(parts)


def _strategy_name(fleet: Fleet, shape: Shape) -> str:
    try:
        return fleet.strategy_of(shape).name
    except InvalidStrategy:
        return shape.strategy
