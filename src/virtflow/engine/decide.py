"""Place every request, or refuse it: the same input gives the same plan.

Filters say which hosts are possible, the strategy which of them is best. Room is taken before the next request is
looked at. A request that cannot be placed delays and spoils nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from virtflow.engine.columns import NOT_THERE
from virtflow.engine.fleet import Fleet
from virtflow.engine.placer import Placer
from virtflow.engine.rankings import Rankings, rankings_of
from virtflow.model.plan import Placement, Plan, Rejection, Request
from virtflow.model.shape import Shape

if TYPE_CHECKING:
    from virtflow.engine.twin import Twin

#: Fewer requests than that are placed faster without the compiled twin.
COMPILED_MIN: Final = 16
#: below that, compiling costs more than it brings for a long time
WORTH_COMPILING_MIN: Final = 256

Outcome = Placement | Rejection
#: pool -> name of the host that round robin chose last there
Cursors = Mapping[str, str]
NO_CURSORS: Cursors = MappingProxyType({})


def decide(fleet: Fleet, requests: Sequence[Request], *, cursors: Cursors = NO_CURSORS) -> Plan:
    """An outcome for each request, in order. What is placed is taken from `fleet`; cursors that moved are named."""
    round_ = _Round(fleet, cursors)
    round_.place_all(requests)
    moved = round_.cursors.items() - cursors.items() if round_.cursors else ()
    return Plan(tuple(round_.outcomes), tuple(sorted(moved)))


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

    def place_all(self, requests: Sequence[Request]) -> None:
        twin = _twin(self.fleet, self.rankings, len(requests))
        if twin is None:
            self._place_runs(requests)
            return
        numbers = twin.numbers({id(request.shape): request.shape for request in requests}.values())
        for number_known, stretch in groupby(requests, lambda one: one.gang is None and numbers[id(one.shape)] >= 0):
            if number_known:
                some = list(stretch)
                rows, scores = twin.place([numbers[id(request.shape)] for request in some])
                self.outcomes += self._outcomes(some, rows, scores)
            else:
                self._place_runs(list(stretch))

    def _place_runs(self, requests: Sequence[Request]) -> None:
        for run in runs(requests):
            self.outcomes += self._place_gang(run) if run[0].gang is not None else self._place_run(run)

    def _place_run(self, run: Sequence[Request]) -> list[Outcome]:
        placer = self.rankings.of(run[0].shape)
        if placer is None:
            return [Rejection(request) for request in run]
        rows, scores = placer.place(run, self.cursors)
        return self._outcomes(run, rows, scores)

    def _outcomes(self, run: Sequence[Request], rows: Sequence[int], scores: Sequence[float]) -> list[Outcome]:
        names, ids = self.fleet.names, self.fleet.ids_view
        outcomes: list[Outcome] = [
            Rejection(request) if row == NOT_THERE else Placement(request, ids[row], names[row], score)
            for request, row, score in zip(run, rows, scores, strict=False)
        ]
        # What one of them did not find, those of the same shape behind it do not find either.
        outcomes += [Rejection(request) for request in run[len(rows) :]]
        return outcomes

    def _place_gang(self, gang: Sequence[Request]) -> list[Outcome]:
        """All of them or none: what the first ones took is given back when a later one finds nothing."""
        cursors = dict(self.cursors)
        placed: list[tuple[Placer, int]] = []
        outcomes: list[Outcome] = []
        for request in gang:
            placer = self.rankings.of(request.shape)
            rows, scores = placer.place((request,), self.cursors) if placer else ([], [])
            if placer is None or not rows:
                self._give_back(placed)
                self.cursors = cursors
                return [Rejection(member) for member in gang]
            placed.append((placer, rows[0]))
            outcomes += self._outcomes((request,), rows, scores)
        return outcomes

    def _give_back(self, placed: Sequence[tuple[Placer, int]]) -> None:
        for placer, row in reversed(placed):
            placer.give(row)


class _MachineCode:
    """Is it there? Until then rounds are decided in Python: to load the compiler takes seconds, in which nothing else
    would be done; a leader whose loop stands still for so long is replaced. Who never decides many at once never needs
    it.
    """

    is_wanted = False
    is_ready = False


def is_worth_compiling() -> bool:
    """A round came that was large enough for machine code to be felt."""
    return _MachineCode.is_wanted


def warm_up() -> bool:
    """Compile beside the work; says whether there is something to compile. Rounds of many use it from then on."""
    try:
        decide(Fleet(compiled=True), [Request(b"", Shape(wants=()))] * COMPILED_MIN)
    except ImportError:
        return False  # numba is not installed
    _MachineCode.is_ready = True
    return True


def _twin(fleet: Fleet, rankings: Rankings, count: int) -> "Twin | None":
    """The one place that asks whether there is machine code."""
    _MachineCode.is_wanted |= count >= WORTH_COMPILING_MIN
    if fleet.compiled is False or (fleet.compiled is None and (count < COMPILED_MIN or not _MachineCode.is_ready)):
        return None
    from virtflow.engine.twin import twin_of

    return twin_of(fleet, rankings)
