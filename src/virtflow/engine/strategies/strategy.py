"""What a strategy is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from virtflow.engine.columns import Columns, Floats, Ints
from virtflow.engine.keys import STEPS
from virtflow.engine.scores import Term
from virtflow.model.plan import Request
from virtflow.model.shape import Shape


class Possible(Protocol):
    """The hosts that could carry a request, as far as a rule of choice may look at them. Rows are ranks of names."""

    def first_from(self, row: int) -> int:
        """The first possible row at or after `row`, going round; -1 when none is possible."""

    def nth(self, draw: int) -> int:
        """The possible row at rank `draw` × count / 2**64; -1 when none is possible."""

    def row_after(self, name: str) -> int:
        """The row of the first host whose name is greater."""


#: picks a row, or -1: given what is possible, the request, and the name chosen last in its pool
Choice = Callable[[Possible, Request, str | None], int]
#: scores many hosts at once; the lowest wins. Asked anew for each decision, so it may compare hosts with one another
WholeScore = Callable[[Columns, Shape, Mapping[str, float]], Floats | Ints]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A named way to choose among the hosts that would do. Exactly one of `terms`, `choose` and `score` is given.

    `terms` is the ordinary way: a weighted sum, lowest wins, kept up to date host by host.
    `choose` looks at no score. `score` is any function of arrays: the slow way, open to everybody.
    """

    name: str
    #: one sentence: what it is good for
    optimises: str
    #: for people
    formula: str
    terms: tuple[Term, ...] = ()
    choose: Choice | None = None
    score: WholeScore | None = None
    #: how finely scores are compared: so many steps to 1.0
    steps: float = STEPS
    #: it goes on where it stopped: the name chosen last in a pool is kept
    takes_turns: bool = False
    #: names of settable weights and their defaults, for `score`; `terms` carry their own
    settings: tuple[tuple[str, float], ...] = ()

    @property
    def weights(self) -> dict[str, float]:
        """What may be set, and what holds when nobody sets it."""
        return {**dict(self.settings), **{term.setting: abs(term.weight) for term in self.terms if term.setting}}

    def described(self) -> dict[str, Any]:
        return {"name": self.name, "optimises": self.optimises, "formula": self.formula, "weights": self.weights}
