"""Outlets: who outside is told of events, how far, and what is wrong with those that are not."""

import msgspec

from virtflow.api.operation import Call, Noun, ok
from virtflow.api.pages import Paged, cursor_key, cut
from virtflow.api.query import NoQuery
from virtflow.control.orders import Rendered
from virtflow.control.outlets import outlet_not_found
from virtflow.model.names import is_name
from virtflow.model.times import time_or_none, time_text
from virtflow.model.views import OutletView

outlets = Noun("outlets")


class OutletOut(msgspec.Struct, frozen=True, kw_only=True):
    """An outlet."""

    name: str
    #: nats, kafka, amqp, webhook, or what a plug-in calls itself
    kind: str
    #: ok, failing or disabled
    state: str
    #: it was told of every event up to this number
    cursor: int
    #: so many events it has not been told of
    behind: int
    #: so long ago the oldest of them happened
    behind_s: float
    #: why it is not told further; empty when all is well
    error: str
    failing_since: str | None
    created_at: str
    updated_at: str


class OutletPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of outlets, in name order."""

    items: list[OutletOut]
    next: str | None


def outlet_out(view: OutletView) -> OutletOut:
    outlet = view.outlet
    return OutletOut(
        name=outlet.name,
        kind=outlet.kind,
        state=_state(view),
        cursor=outlet.cursor,
        behind=view.behind,
        behind_s=view.behind_s,
        error=outlet.error,
        failing_since=time_or_none(outlet.failing_since_ms),
        created_at=time_text(outlet.created_ms),
        updated_at=time_text(outlet.updated_ms),
    )


def _state(view: OutletView) -> str:
    if not view.outlet.enabled:
        return "disabled"
    return "failing" if view.outlet.error else "ok"


@outlets.get("/v1/outlets", query=Paged, answers={200: OutletPage})
async def list_outlets(call: Call[None, Paged]) -> Rendered:
    """List who is told of events."""
    after = cursor_key("o", call.query).decode("latin-1")
    views = [view for view in await call.house.outlets.list() if view.outlet.name > after]
    page, following = cut(views, call.query.count, "o", lambda view: view.outlet.name.encode())
    return ok(OutletPage(items=[outlet_out(view) for view in page], next=following))


@outlets.get("/v1/outlets/{name}", answers={200: OutletOut})
async def get_outlet(call: Call[None, NoQuery]) -> Rendered:
    """Read how far one is told."""
    name = call.path["name"]
    if not is_name(name):
        raise outlet_not_found(name)
    return ok(outlet_out(await call.house.outlets.get(name)))
