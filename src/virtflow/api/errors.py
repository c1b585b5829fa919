"""From an error to an answer: the class gives the status, the code gives the title. Nothing else maps errors.

What only HTTP can get wrong is told apart here, beside the tree in `model/errors.py`:

VirtflowError
├── MalformedJson      the body is no JSON at all
├── BadHeader          a header says something we cannot obey
├── UnexpectedBody     a body where none is taken
├── Unauthorized       no token, or not ours
├── NoSuchRoute        nothing lives at that path
├── WrongMethod        something does, but not by that method
├── TooSlow            the body did not arrive in time
├── TooLarge           the body is larger than the limit
├── WrongMediaType     the body is not JSON, or is compressed
├── WrongHost          the Host header names somebody else
├── NotServedHere      this process does not have the role for it
└── Internal           a defect of ours; the log has the rest under the request id
"""

import http
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from virtflow.control.orders import Rendered
from virtflow.model.errors import (
    Busy,
    Conflict,
    FieldProblem,
    Gone,
    InvalidRequest,
    InvalidSetting,
    KeyReused,
    NotFound,
    Unavailable,
    Unplaceable,
    VersionMismatch,
    VirtflowError,
)

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
#: a path may be 64 KiB long; the problem needs only enough of it to recognise
INSTANCE_LENGTH_MAX = 256


class MalformedJson(VirtflowError):
    code = "malformed_json"


class BadHeader(VirtflowError):
    code = "bad_header"


class UnexpectedBody(VirtflowError):
    code = "unexpected_body"


class Unauthorized(VirtflowError):
    code = "unauthorized"


class NoSuchRoute(VirtflowError):
    code = "no_such_route"


class WrongMethod(VirtflowError):
    code = "wrong_method"

    def __init__(self, method: str, *, allowed: Sequence[str]) -> None:
        super().__init__(f"{method} is not possible here", remedy=f"possible: {', '.join(allowed)}")
        self.allowed = tuple(allowed)


class TooSlow(VirtflowError):
    code = "body_too_slow"


class TooLarge(VirtflowError):
    code = "body_too_large"


class WrongMediaType(VirtflowError):
    code = "wrong_media_type"


class WrongHost(VirtflowError):
    code = "wrong_host"


class NotServedHere(VirtflowError):
    code = "not_served_here"


class Internal(VirtflowError):
    code = "internal_error"


STATUS: dict[type[VirtflowError], int] = {
    MalformedJson: 400,
    BadHeader: 400,
    UnexpectedBody: 400,
    Unauthorized: 401,
    NotFound: 404,
    NoSuchRoute: 404,
    WrongMethod: 405,
    TooSlow: 408,
    Conflict: 409,
    Unplaceable: 409,
    Gone: 410,
    VersionMismatch: 412,
    TooLarge: 413,
    WrongMediaType: 415,
    WrongHost: 421,
    NotServedHere: 421,
    InvalidRequest: 422,
    KeyReused: 422,
    Busy: 429,
    Internal: 500,
    InvalidSetting: 500,
    Unavailable: 503,
}

TITLES = {
    "already_exists": "Something of that name exists",
    "already_requeued": "It was sent again already",
    "bad_header": "A header cannot be obeyed",
    "body_too_large": "The body is too large",
    "body_too_slow": "The body did not arrive in time",
    "cannot_requeue": "It cannot be sent again",
    "conflict": "In conflict with what is there",
    "delivery_not_found": "No such delivery",
    "events_gone": "Events that old are no longer kept",
    "fenced": "Somebody newer is the leader",
    "forbidden_address": "Nothing may be sent there",
    "headers_too_large": "The headers are too large",
    "history_over": "That history of events is over",
    "headers_too_slow": "The headers did not arrive in time",
    "host_in_use": "Instances are on the host",
    "host_not_found": "No such host",
    "idempotency_key_in_use": "The first request of that Idempotency-Key is still under way",
    "idempotency_key_reused": "The Idempotency-Key came before with another request",
    "dead_letter_not_found": "No such dead letter",
    "illegal_transition": "Not possible in this state",
    "insufficient_resources": "No available nodes",
    "internal_error": "A defect of the service",
    "invalid_cursor": "Not a cursor of this list",
    "invalid_id": "Not an id",
    "invalid_request": "The request is not valid",
    "invalid_setting": "A setting is not valid",
    "invalid_strategy": "No such strategy",
    "invalid_weights": "The strategy has no such weights",
    "inventory_unavailable": "An inventory does not answer",
    "malformed_json": "The body is not JSON",
    "malformed_request": "Not an HTTP request",
    "no_such_pool": "No such pool",
    "no_such_route": "Nothing is here",
    "not_found": "No such thing",
    "not_served_here": "Another process serves this",
    "outlet_not_found": "No such outlet",
    "outcome_unknown": "Whether it was done is not known",
    "retry_transaction": "Other writers were in the way",
    "task_not_found": "No such task",
    "too_many_connections": "Too many connections",
    "too_many_dimensions": "Too many custom resources",
    "too_many_requests": "Too many requests",
    "too_many_webhooks": "Too many webhooks",
    "unauthorized": "A token is needed",
    "unavailable": "A part of the service does not answer",
    "unexpected_body": "No body is taken here",
    "version_mismatch": "It changed meanwhile",
    "vm_not_found": "No such VM",
    "webhook_not_found": "No such webhook",
    "wrong_host": "This is somebody else",
    "wrong_media_type": "Not a type of body that is taken here",
    "wrong_method": "Not possible by this method",
}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457. Test `code`; show `detail` and `remedy` to people."""

    #: urn:virtflow:problem: and the code
    type: str
    title: str
    status: int
    detail: str
    #: the path that was asked for
    instance: str
    code: str
    remedy: str
    #: `pointer` is a JSON pointer into the body, "?limit" for a query parameter, "If-Match:" for a header
    errors: tuple[FieldProblem, ...]
    #: with 412: the version to name next time
    current_version: int | UnsetType = UNSET


_encode = msgspec.json.Encoder().encode


def status_of(error: VirtflowError) -> int:
    """The status of the nearest class that has one."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def render_problem(error: VirtflowError, *, path: str) -> Rendered:
    status = status_of(error)
    problem = Problem(
        type=f"urn:virtflow:problem:{error.error_code}",
        title=TITLES.get(error.error_code, http.HTTPStatus(status).phrase),
        status=status,
        detail=error.detail,
        instance=path[:INSTANCE_LENGTH_MAX],
        code=error.error_code,
        remedy=error.remedy,
        errors=error.fields,
        current_version=error.current_version if isinstance(error, VersionMismatch) else UNSET,
    )
    return status, _encode(problem), (("content-type", PROBLEM_TYPE), *_headers(error))


def _headers(error: VirtflowError) -> tuple[tuple[str, str], ...]:
    match error:
        case WrongMethod():
            return (("allow", ", ".join(error.allowed)),)
        case Unauthorized():
            return (("www-authenticate", 'Bearer realm="virtflow"'),)
        case Busy():
            return (("retry-after", str(error.retry_after_s)),)
        case Unavailable():
            return (("retry-after", str(RETRY_AFTER_S)),)
        case _:
            return ()
