"""Decisions without writing: where a VM would go, or why nowhere."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.explanations import ExplanationOut, View, explanation_out
from virtflow.api.operation import Call, Noun, ok
from virtflow.api.orders import VmIn
from virtflow.api.rules import BULK
from virtflow.control.orders import Rendered
from virtflow.model.plan import Candidate, Preview, ScorePart

placements = Noun("placements")

RUNNERS_UP_DEFAULT, RUNNERS_UP_MAX = 3, 20


class ExplainManyIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A list of VMs, where each sees the room that the former took."""

    items: Annotated[list[VmIn], BULK]


class CandidateOut(msgspec.Struct, frozen=True, kw_only=True):
    """A host that would do, with the parts of its score. Lower is better."""

    #: null in the tenants' view
    host: str | None
    score: float
    instances: int
    free: dict[str, int]
    parts: list[ScorePart]


class PreviewOut(msgspec.Struct, frozen=True, kw_only=True):
    """What placing would do."""

    placeable: bool
    strategy: str
    hosts_possible: int
    winner: CandidateOut | None
    runners_up: list[CandidateOut]
    explanation: ExplanationOut | None


class PreviewsOut(msgspec.Struct, frozen=True, kw_only=True):
    """What placing them one after the other would do."""

    items: list[PreviewOut]
    placeable: int
    refused: int


class ExplainQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much, and for whom."""

    runners_up: (
        Annotated[int, Meta(ge=0, le=RUNNERS_UP_MAX, description=f"default: {RUNNERS_UP_DEFAULT}, for lists 0")]
        | UnsetType
    ) = UNSET
    view: Annotated[View, Meta(description="default: operator")] | UnsetType = UNSET


def _candidate(candidate: Candidate, audience: object) -> CandidateOut:
    return CandidateOut(
        host=None if audience == "tenant" else candidate.host,
        score=candidate.score,
        instances=candidate.instances,
        free=candidate.free,
        parts=list(candidate.parts),
    )


def preview_out(preview: Preview, *, audience: object) -> PreviewOut:
    return PreviewOut(
        placeable=preview.winner is not None,
        strategy=preview.strategy,
        hosts_possible=preview.hosts_possible,
        winner=None if preview.winner is None else _candidate(preview.winner, audience),
        runners_up=[_candidate(one, audience) for one in preview.runners_up],
        explanation=explanation_out(preview.explanation, view=audience),
    )


@placements.post(
    "/v1/placements/explain",
    body=(VmIn, ExplainManyIn),
    query=ExplainQuery,
    answers={200: (PreviewOut, PreviewsOut)},
    repeatable=False,
    example={"resources": {"cpu": 2000, "memory": 4096}},
)
async def explain(call: Call[VmIn | ExplainManyIn, ExplainQuery]) -> Rendered:
    """Say where a VM would go, or why nowhere; nothing is written."""
    runners_up, audience = call.query.runners_up, call.query.view
    if isinstance(call.body, ExplainManyIn):
        shapes = [order.shape for order in call.desk.orders.orders_of(call.body.items)]
        previews = await call.house.placements.explain_all(shapes, runners_up=runners_up or 0)
        placeable = sum(preview.winner is not None for preview in previews)
        items = [preview_out(preview, audience=audience) for preview in previews]
        return ok(PreviewsOut(items=items, placeable=placeable, refused=len(items) - placeable))
    shape = call.desk.orders.order_of(call.body).shape
    many = RUNNERS_UP_DEFAULT if runners_up is UNSET else runners_up
    return ok(preview_out(await call.house.placements.explain(shape, runners_up=many), audience=audience))
