"""What a host can be judged by, and how a weighted sum of it becomes a number to compare.

A strategy is a list of weighted scores. Every one of them is a fact about one host in one dimension, so that the
arithmetic is the same, bit for bit, for all hosts at once, for one host, and in the compiled twin:

    offset + weight × column + … + weight × ((room − wanted) / total) + …
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtflow.model.shape import Shape


class Score(enum.StrEnum):
    """The vocabulary. All but the last speak of one dimension."""

    #: (total - free) / total, 0 where there is nothing of it; use that an inventory reports is not free either
    BUSY = "busy"
    #: 1 - busy
    IDLE = "idle"
    #: (free - wanted) / total: what remains after placing
    LEFT = "left"
    #: free - wanted, in the dimension's own unit
    ROOM = "room"
    #: how many instances the host carries
    INSTANCES = "instances"


@dataclass(frozen=True, slots=True)
class Term:
    """One weighted score of a strategy. The lowest sum wins: what is wanted has a negative weight."""

    score: Score
    dimension: str = ""
    weight: float = 1.0
    #: the name under which requests and installations may set this weight; "" = fixed
    setting: str = ""

    @property
    def name(self) -> str:
        return f"{self.score} {self.dimension}".rstrip()


def busy(dimension: str, weight: float = 1.0, *, setting: str = "") -> Term:
    return Term(Score.BUSY, dimension, weight, setting)


def idle(dimension: str, weight: float = 1.0, *, setting: str = "") -> Term:
    return Term(Score.IDLE, dimension, weight, setting)


def left(dimension: str, weight: float = 1.0) -> Term:
    return Term(Score.LEFT, dimension, weight)


def room(dimension: str, weight: float = 1.0) -> Term:
    return Term(Score.ROOM, dimension, weight)


def instances(weight: float = 1.0) -> Term:
    return Term(Score.INSTANCES, weight=weight)


@dataclass(frozen=True, slots=True)
class Weighted:
    """A column and what it counts for."""

    weight: float
    #: "busy", "room" or "instances"
    column: str
    dimension: int = 0


@dataclass(frozen=True, slots=True)
class WeightedLeft:
    """A share that is left after placing, and what it counts for."""

    weight: float
    dimension: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Formula:
    """The terms of a strategy for one shape, reduced to columns."""

    offset: float = 0.0
    columns: tuple[Weighted, ...] = ()
    lefts: tuple[WeightedLeft, ...] = ()


def formula(terms: Sequence[Term], shape: Shape, dimensions: Mapping[str, int]) -> Formula:
    """Terms without weight and dimensions that no host has fall out: they are the same for everybody."""
    wanted = shape.resources
    offset = 0.0
    columns: list[Weighted] = []
    lefts: list[WeightedLeft] = []
    for term in terms:
        if term.weight == 0.0 or (term.dimension and term.dimension not in dimensions):
            continue
        number = dimensions.get(term.dimension, 0)
        amount = wanted.get(term.dimension, 0)
        if term.score is Score.BUSY:
            columns.append(Weighted(term.weight, "busy", number))
        elif term.score is Score.IDLE:
            offset += term.weight
            columns.append(Weighted(-term.weight, "busy", number))
        elif term.score is Score.LEFT:
            lefts.append(WeightedLeft(term.weight, number, amount))
        elif term.score is Score.ROOM:
            offset -= term.weight * amount
            columns.append(Weighted(term.weight, "room", number))
        else:
            columns.append(Weighted(term.weight, "instances"))
    return Formula(offset, tuple(columns), tuple(lefts))


def value(term: Term, *, total: Any, room: Any, instances: Any, wanted: int) -> Any:
    """One score, plainly: of one host or of arrays of them, in floats or in fractions."""
    whole = total + (total == 0)  # nothing of something is not busy, and nothing is divided by zero
    if term.score is Score.BUSY:
        return (total - room) / whole
    if term.score is Score.IDLE:
        return 1 - (total - room) / whole
    if term.score is Score.LEFT:
        return (room - wanted) / whole
    if term.score is Score.ROOM:
        return room - wanted
    return instances
