"""Dead letters: what failed for good, sent again or thrown away."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.idempotency import answer
from virtflow.api.operation import Call, Noun, nothing, ok
from virtflow.api.pages import Paged, bad_cursor, cursor_key, cut
from virtflow.api.query import NoQuery
from virtflow.control.orders import Rendered
from virtflow.model.dead import DeadKind, DeadLetter
from virtflow.model.errors import InvalidRequest, NotFound
from virtflow.model.names import id_from_text
from virtflow.model.times import time_or_none, time_text

dead = Noun("dead")

KindWord = Literal["task", "message"]
_NUMBER_BYTES = 8


class DeadOut(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter."""

    #: of a failed request: that of its task
    id: str
    kind: KindWord
    code: str
    reason: str
    at: str
    #: those that failed with it; of a message none
    tasks: list[str]
    #: of the first task
    vm: str
    pool: str
    #: of a message: its beginning, as text
    message: str | None
    requeued_at: str | None
    #: the new task
    requeued_as: str | None


class DeadPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of dead letters, oldest first."""

    items: list[DeadOut]
    next: str | None


class DeadQuery(Paged, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which letters."""

    kind: KindWord | UnsetType = UNSET
    requeued: Annotated[bool, Meta(description="true: also those that were sent again")] | UnsetType = UNSET


def dead_out(letter: DeadLetter) -> DeadOut:
    failed = letter.failed
    is_message = letter.kind is DeadKind.MESSAGE
    return DeadOut(
        id=letter.id,
        kind=letter.kind.value,
        code=letter.code,
        reason=letter.reason,
        at=time_text(letter.at_ms),
        tasks=failed.tasks,
        vm=failed.vm,
        pool=failed.pool,
        message=letter.body.decode("utf-8", "backslashreplace") if is_message else None,
        requeued_at=time_or_none(letter.requeued_ms),
        requeued_as=letter.requeued_as,
    )


def _shown(letter: DeadLetter) -> Rendered:
    return ok(dead_out(letter))


@dead.get("/v1/dead", query=DeadQuery, answers={200: DeadPage})
async def list_dead(call: Call[None, DeadQuery]) -> Rendered:
    """List dead letters."""
    query = call.query
    letters = await call.house.dead.list(
        with_requeued=query.requeued is True,
        kind=DeadKind(query.kind) if query.kind else None,
        after=_number(query),
        limit=query.count + 1,
    )
    page, following = cut(letters, query.count, "d", lambda letter: letter.number.to_bytes(_NUMBER_BYTES, "big"))
    return ok(DeadPage(items=[dead_out(letter) for letter in page], next=following))


@dead.get("/v1/dead/{letter_id}", answers={200: DeadOut})
async def get_dead(call: Call[None, NoQuery]) -> Rendered:
    """Read a dead letter."""
    return _shown(await call.house.dead.get(_id(call)))


@dead.post("/v1/dead/{letter_id}/requeue", answers={200: DeadOut}, refusals=(409,))
async def requeue_dead(call: Call[None, NoQuery]) -> Rendered:
    """Send it again, once. A failed request becomes a new one, of the same size and name; `requeued_as` is its task."""
    receipt = call.receipt(_shown)
    letter = await call.house.dead.requeue(_id(call), actor=call.actor, receipt=receipt)
    return answer(receipt, _shown, letter)


@dead.call("DELETE", "/v1/dead/{letter_id}", answers={204: None})
async def delete_dead(call: Call[None, NoQuery]) -> Rendered:
    """Throw a dead letter away. Its task stays as it ended."""
    await call.house.dead.delete(_id(call), actor=call.actor)
    return nothing()


def _number(query: DeadQuery) -> int:
    key = cursor_key("d", query)
    if key and len(key) != _NUMBER_BYTES:
        raise bad_cursor()
    return min(int.from_bytes(key, "big"), 2**62)


def _id(call: Call[None, NoQuery]) -> str:
    text = call.path["letter_id"]
    try:
        id_from_text(text)
    except InvalidRequest:
        raise NotFound(
            "no dead letter is called that", code="dead_letter_not_found", remedy="virtflow dead list shows them all"
        ) from None
    return text
