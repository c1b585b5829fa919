"""Processes: who is there, and who leads."""

import msgspec

from virtflow.api.health import Condition, UnwellOut, unwell_out
from virtflow.api.operation import Call, Noun, ok
from virtflow.api.pages import Paged, cursor_key, cut
from virtflow.control.orders import Rendered
from virtflow.model.process import ProcessView
from virtflow.model.times import time_text

processes = Noun("processes")


class OfficeOut(msgspec.Struct, frozen=True, kw_only=True):
    """An office that the process holds."""

    office: str
    #: grows with every change of the holder
    term: int
    since: str


class ProcessOut(msgspec.Struct, frozen=True, kw_only=True):
    """A running process of this installation."""

    id: str
    node: str
    roles: list[str]
    offices: list[OfficeOut]
    #: here, stopped (it said goodbye), or silent for longer than a living one is
    state: str
    #: ok, degraded or failing, as it said last; null of who is not here
    health: Condition | None
    unwell: list[UnwellOut]
    #: where its API answers; empty until it does
    address: str
    version: str
    started_at: str
    seen_at: str


class ProcessPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of processes."""

    items: list[ProcessOut]
    next: str | None


@processes.get("/v1/processes", query=Paged, answers={200: ProcessPage})
async def list_processes(call: Call[None, Paged]) -> Rendered:
    """List the processes that share this database, and the offices they hold. The oldest is the first."""
    after = cursor_key("r", call.query)
    rest = [view for view in await call.house.processes.list() if _key(view) > after]
    page, following = cut(rest, call.query.count, "r", _key)
    return ok(ProcessPage(items=[_shown(view) for view in page], next=following))


def _key(view: ProcessView) -> bytes:
    """In the order of the list, so that a page goes on where it ended although a process came or went."""
    return f"{view.process.started_ms:014d} {view.process.id}".encode()


def _shown(view: ProcessView) -> ProcessOut:
    process = view.process
    return ProcessOut(
        id=process.id,
        node=process.node,
        roles=list(process.roles),
        offices=[
            OfficeOut(office=lease.office, term=lease.term, since=time_text(lease.since_ms)) for lease in view.leases
        ],
        state=view.state,
        health=view.health.value if view.health is not None else None,
        unwell=[unwell_out(one) for one in process.unwell] if view.health is not None else [],
        address=process.address,
        version=process.version,
        started_at=time_text(process.started_ms),
        seen_at=time_text(process.seen_ms),
    )
