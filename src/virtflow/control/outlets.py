"""Outlets: who outside is told of events, how far, and what happens to one that falls too far behind."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from virtflow.model.clock import Clock
from virtflow.model.errors import NotFound
from virtflow.model.event import Event, EventType
from virtflow.model.outlet import Outlet
from virtflow.model.views import OutletView
from virtflow.store.contract import Store

log = structlog.get_logger(__name__)

WEBHOOK = "webhook"


class Observer(Protocol):
    """Who counts; main hands in the metrics."""

    def observe_left_behind(self, outlet: str, events: int) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    store: Store
    clock: Clock
    observer: Observer
    #: events were committed
    tell: Callable[[], None]

    async def list(self) -> Sequence[OutletView]:
        """All, in name order."""
        _, newest = await self.store.event_range()
        return [self._view(outlet, newest) for outlet in await self.store.outlets()]

    async def get(self, name: str) -> OutletView:
        outlet = await self.store.outlet(name)
        if outlet is None:
            raise outlet_not_found(name)
        _, newest = await self.store.event_range()
        return self._view(outlet, newest)

    async def settle(self, buses: Sequence[str]) -> None:
        """These buses are told, from where they were; a new one from the oldest event on. Others are told no more."""
        known = {outlet.name: outlet for outlet in await self.store.outlets()}
        oldest, _ = await self.store.event_range()
        now_ms = self.clock.now_ms()
        new = [
            Outlet(name=name, kind=name, cursor=oldest - 1, created_ms=now_ms, updated_ms=now_ms)
            for name in buses
            if name not in known
        ]
        changed = [one for one in known.values() if is_bus(one) and one.enabled != (one.name in buses)]
        if not new and not changed:
            return
        async with self.store.transaction() as tx:
            await tx.add_outlets(new)
            for outlet in changed:
                await tx.enable_outlet(outlet.name, enabled=not outlet.enabled, at_ms=now_ms)

    async def needed_from(self) -> int | None:
        """The oldest event that somebody has not been told of; None when nobody is told of any."""
        cursors = [outlet.cursor for outlet in await self.store.outlets() if outlet.enabled]
        return min(cursors) + 1 if cursors else None

    async def leave_behind(self, before: int) -> None:
        """Nobody waits for events before that number any longer: whoever was not told of them never will be."""
        for outlet in await self.store.outlets():
            if outlet.enabled and outlet.cursor + 1 < before:
                await self._leave(outlet, before)

    async def _leave(self, outlet: Outlet, before: int) -> None:
        lost = before - 1 - outlet.cursor
        async with self.store.transaction() as tx:
            version = await tx.leave_outlet(outlet.name, was=outlet.cursor, now=before - 1)
            if version is None:
                return  # it was told of something just now
            await tx.append_events([_left_behind(outlet, version, before, self.clock.now_ms())])
        log.warning("outlet.left_behind", outlet=outlet.name, events=lost, error=outlet.error)
        self.observer.observe_left_behind(outlet.name, lost)
        self.tell()

    def _view(self, outlet: Outlet, newest: int) -> OutletView:
        behind = max(0, newest - outlet.cursor)
        waiting_ms = self.clock.now_ms() - outlet.waiting_since_ms if behind and outlet.waiting_since_ms else 0
        return OutletView(outlet=outlet, behind=behind, behind_s=max(0, waiting_ms) / 1000)


def outlet_not_found(name: str) -> NotFound:
    return NotFound(f"no outlet {name!r}", code="outlet_not_found", remedy="virtflow get outlets shows which there are")


def is_bus(outlet: Outlet) -> bool:
    """There is one of each kind, and it is called like its kind. Webhooks are called as their owners like."""
    return outlet.name == outlet.kind != WEBHOOK


def _left_behind(outlet: Outlet, version: int, before: int, now_ms: int) -> Event:
    first, last = outlet.cursor + 1, before - 1
    return Event(
        type=EventType.OUTLET_LEFT_BEHIND,
        kind="outlet",
        id=outlet.name,
        version=version,
        at_ms=now_ms,
        code="events_gone",
        text=f"{outlet.name} was not told of {last - first + 1} events, which are no longer kept",
        data={"first": first, "last": last},
    )
