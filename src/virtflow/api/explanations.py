"""Why a request found no host, as it is answered everywhere."""

from typing import Literal

import msgspec

from virtflow.model.explanation import Change, Explanation, Refusals

View = Literal["operator", "tenant"]


class NearestOut(msgspec.Struct, frozen=True, kw_only=True):
    """The host that came nearest, and what it lacks."""

    #: null in the tenants' view
    host: str | None
    short: dict[str, int]
    refused_by: list[str]
    text: str


class ExplanationOut(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing fitted, and what would."""

    code: str
    text: str
    #: capacity: it may fit later. request: it never will as it stands
    kind: str
    hosts_considered: int
    filters: list[Refusals]
    nearest: NearestOut | None
    changes: list[Change]


def explanation_out(explanation: Explanation | None, *, view: object) -> ExplanationOut | None:
    if explanation is None:
        return None
    shown = explanation.for_tenants() if view == "tenant" else explanation
    nearest = shown.nearest
    return ExplanationOut(
        code=shown.code,
        text=shown.text,
        kind=shown.kind,
        hosts_considered=shown.hosts_considered,
        filters=list(shown.filters),
        nearest=None
        if nearest is None
        else NearestOut(host=nearest.host, short=nearest.short, refused_by=list(nearest.refused_by), text=nearest.text),
        changes=list(shown.changes),
    )
