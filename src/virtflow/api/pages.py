"""Lists in pages. A cursor is the last key of the page before, opaque to whoever carries it."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.strict import refusal
from virtflow.model.errors import FieldProblem, InvalidRequest
from virtflow.model.limits import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX

T = TypeVar("T")

_KEY_BYTES_MAX = 80


class Paged(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every list takes."""

    limit: Annotated[int, Meta(ge=1, le=PAGE_ITEMS_MAX, description=f"default: {PAGE_ITEMS_DEFAULT}")] | UnsetType = (
        UNSET
    )
    cursor: (
        Annotated[
            str,
            Meta(
                max_length=200,
                description="`next` of the page before",
                extra_json_schema={"pattern": "^[A-Za-z0-9_-]+$"},
            ),
        ]
        | UnsetType
    ) = UNSET

    @property
    def count(self) -> int:
        return self.limit or PAGE_ITEMS_DEFAULT


def cursor_text(kind: str, key: bytes) -> str:
    """`kind` is one letter, so that a cursor of one list is refused by another."""
    return base64.urlsafe_b64encode(kind.encode() + key).decode().rstrip("=")


def cursor_key(kind: str, paged: Paged) -> bytes:
    """The key behind the cursor; empty for the first page."""
    if paged.cursor is UNSET:
        return b""
    try:
        raw = base64.b64decode(paged.cursor + "=" * (-len(paged.cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw.startswith(kind.encode()) or len(raw) > _KEY_BYTES_MAX or cursor_text(kind, raw[1:]) != paged.cursor:
        raise bad_cursor()
    return raw[1:]


def bad_cursor() -> InvalidRequest:
    problem = FieldProblem("?cursor", "is not a cursor of this list", "take `next` of a page as it is")
    error = refusal([problem])
    error.error_code = "invalid_cursor"
    return error


def cut(rows: Sequence[T], count: int, kind: str, key: Callable[[T], bytes]) -> tuple[Sequence[T], str | None]:
    """A page out of one row more than fit, and the cursor for the next; None when there is none."""
    page = rows[:count]
    return page, cursor_text(kind, key(page[-1])) if len(rows) > count else None
