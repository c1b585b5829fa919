"""An event as everybody outside sees it: the API, its streams, buses, webhooks."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from virtflow.model.event import Event, EventType
from virtflow.model.times import time_text


class EventOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of one object. What has nothing to say is left out."""

    seq: int
    type: EventType
    kind: str
    id: str
    version: int
    at: str
    task: str = ""
    vm: str = ""
    host: str = ""
    pool: str | UnsetType = UNSET
    #: signed change of what is taken from `host`, per dimension
    delta: dict[str, int] | msgspec.Raw | UnsetType = UNSET
    fence: int = 0
    origin: str = ""
    actor: str = ""
    code: str = ""
    text: str = ""
    was: str = ""
    now: str = ""
    data: dict[str, Any] | UnsetType = UNSET


def event_out(event: Event) -> EventOut:
    return EventOut(
        seq=event.seq,
        type=event.type,
        kind=event.kind,
        id=event.id,
        version=event.version,
        at=time_text(event.at_ms),
        task=event.task,
        vm=event.vm,
        host=event.host,
        # "" is a pool too
        pool=event.pool if event.pool or event.kind in ("host", "pool") else UNSET,
        delta=UNSET if event.delta is None else event.delta,
        fence=event.fence,
        origin=event.origin,
        actor=event.actor,
        code=event.code,
        text=event.text,
        was=event.was,
        now=event.now,
        data=UNSET if event.data is None else event.data,
    )
