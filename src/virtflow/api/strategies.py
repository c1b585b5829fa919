"""Strategies: what they are good for, and what can be set."""

import msgspec

from virtflow.api.operation import Call, Noun, ok
from virtflow.api.pages import Paged, bad_cursor, cursor_key, cut
from virtflow.control.orders import Rendered

strategies = Noun("strategies")


class StrategyOut(msgspec.Struct, frozen=True, kw_only=True):
    """A way to choose among the hosts that would do."""

    name: str
    optimises: str
    formula: str
    #: settable weights and what holds when nobody sets them
    weights: dict[str, float]
    #: the one of this installation
    default: bool


class StrategyPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of strategies."""

    items: list[StrategyOut]
    next: str | None


@strategies.get("/v1/strategies", query=Paged, answers={200: StrategyPage})
async def list_strategies(call: Call[None, Paged]) -> Rendered:
    """List strategies."""
    chosen = call.house.placements.default_strategy
    known = [
        StrategyOut(**described, default=described["name"] == chosen)
        for described in await call.house.placements.strategies()
    ]
    after = cursor_key("s", call.query).decode("latin-1")
    names = [strategy.name for strategy in known]
    if after and after not in names:
        raise bad_cursor()
    rest = known[names.index(after) + 1 :] if after else known
    page, following = cut(rest, call.query.count, "s", lambda strategy: strategy.name.encode())
    return ok(StrategyPage(items=list(page), next=following))
