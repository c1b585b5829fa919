"""One host after the other, in the order of names."""

from virtflow.engine.strategies.strategy import Possible, Strategy
from virtflow.model.plan import Request


def _next_name(possible: Possible, request: Request, last: str | None) -> int:
    """The next possible host after the one chosen last. A name, not an index: hosts may come and go meanwhile."""
    return possible.first_from(0 if last is None else possible.row_after(last))


round_robin = Strategy(
    name="round_robin",
    optimises="Takes turns: the next possible host by name after the one chosen last in this pool.",
    formula="the smallest name greater than the last one chosen; after the greatest, the smallest",
    choose=_next_name,
    takes_turns=True,
)
