"""The OpenAPI document: each operation in its own words, every schema from the types that are really used."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from virtflow.api.errors import PROBLEM_TYPE, Problem
from virtflow.api.health import HealthOut
from virtflow.api.operation import Operation
from virtflow.api.query import parameters_of
from virtflow.model.limits import IDEMPOTENCY_KEY_LENGTH_MAX

REF = "#/components/schemas/{name}"
TITLE = "virtflow"
DESCRIPTION = """
Decides where virtual machines run on a fleet of bare-metal hosts, writes the decision down, and keeps it true.

* Errors are problem documents (RFC 9457): test `code`, show `detail` and `remedy`.
* Bodies are strict JSON: unknown fields, doubled keys, strings for numbers are refused, all at once, with their place.
* Every POST that writes takes an `Idempotency-Key`; what has a version answers it as `ETag` and obeys `If-Match`.
* Any request may also be refused with 400 (not HTTP), 405 (other method), 421 (other host) or 431 (headers too large).
"""
TAGS = {
    "schedule": "The first API: ask, and look for the result later.",
    "hosts": "Bare-metal machines.",
    "pools": "What holds for a group of hosts.",
    "vms": "What is placed.",
    "tasks": "What became of each request.",
    "dead": "What failed for good.",
    "placements": "Decisions without writing.",
    "capacity": "How many more fit.",
    "events": "What happened, in order.",
    "outlets": "Who outside is told of it.",
    "webhooks": "Who is told of it by HTTP.",
    "strategies": "How to choose.",
    "fleet": "All of it in numbers.",
    "processes": "Who is there, and who leads.",
    "health": "For whoever watches this process.",
}
REFUSALS = {
    400: "Not JSON, or a header that cannot be obeyed",
    401: "A token is needed",
    404: "No such thing",
    408: "The body did not arrive in time",
    409: "In conflict with what is there",
    410: "Events that old are no longer kept",
    412: "It changed meanwhile; `current_version` says to what",
    413: "The body is too large",
    415: "The body is not JSON, or is compressed",
    422: "Something in it is not valid; `errors` says what and where",
    429: "Too many requests; `Retry-After` says when",
    500: "A defect of the service",
    503: "A part of the service does not answer; `Retry-After` says when",
}
_SUCCESS = {200: "Done", 201: "Made", 202: "Accepted, safe on disk", 204: "Gone", 503: "Something is wrong"}
_RETRY_AFTER = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
_ETAG = {"ETag": {"description": "the version in quotes", "schema": {"type": "string"}}}
_LOCATION = {"Location": {"description": "where it is", "schema": {"type": "string"}}}
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": 'do it only if the version is still this one: "3", or * for any',
    "schema": {"type": "string", "pattern": r'^("(0|[1-9][0-9]{0,17})"|\*)$'},
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "the same key and the same request: done once, answered the same",
    "schema": {"type": "string", "pattern": "^[!-~]+$", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LENGTH_MAX},
}
_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "go on after this event; counts more than `after`",
    "schema": {"type": "string", "pattern": "^[0-9]{1,15}$"},
}
_WHERE = {
    "name": "a name",
    "task_id": "the id that the request was answered with",
    "letter_id": "its id",
    "delivery_id": "of a message",
}


def operation_document(operation: Operation) -> dict[str, Any]:
    document: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "operationId": operation.id,
        "responses": _responses(operation),
    }
    if parameters := list(_parameters(operation)):
        document["parameters"] = parameters
    if operation.description:
        document["description"] = operation.description
    if operation.body is not None:
        document["requestBody"] = _request_body(operation)
    if operation.path in ("/healthz", "/readyz"):
        document["security"] = []
    return document


def _parameters(operation: Operation) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", operation.path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": _WHERE[name],
            "schema": {"type": "string", "minLength": 1},
        }
    yield from parameters_of(operation.query)
    if operation.repeatable:
        yield _IDEMPOTENCY_KEY
    if operation.has_version:
        yield _IF_MATCH
    if operation.id == "stream_events":
        yield _LAST_EVENT_ID


def _request_body(operation: Operation) -> dict[str, Any]:
    media: dict[str, Any] = {"schema": _schema(operation.body)}
    if operation.example is not None:
        media["examples"] = {"example": {"value": operation.example}}
    return {"required": True, "content": dict.fromkeys(operation.types, media)}


def _responses(operation: Operation) -> dict[str, Any]:
    answers = {str(status): _answer(operation, status, of) for status, of in operation.answers.items()}
    refusals = {
        str(status): _refusal(status) for status in sorted(_refused_with(operation)) if status not in operation.answers
    }
    return answers | refusals


def _answer(operation: Operation, status: int, of: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": _SUCCESS[status]}
    if isinstance(of, str):
        answer["content"] = {of.partition(";")[0]: {"schema": {"type": "string"}}}
    elif of is not None:
        answer["content"] = {"application/json": {"schema": _schema(of)}}
    if headers := _headers(status, of):
        answer["headers"] = headers
    if operation.links:
        answer["links"] = dict(operation.links)
    return answer


def _headers(status: int, of: Any) -> dict[str, Any]:
    fields = getattr(of, "__struct_fields__", ())
    headers = dict(_ETAG) if "version" in fields and "database" not in fields else {}
    one = status in (201, 202) and "version" in fields
    return headers | _LOCATION if one else headers


def _refusal(status: int) -> dict[str, Any]:
    refusal: dict[str, Any] = {
        "description": REFUSALS[status],
        "content": {PROBLEM_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}},
    }
    if status in (429, 503):
        refusal["headers"] = _RETRY_AFTER
    return refusal


def _refused_with(operation: Operation) -> set[int]:
    statuses = {400, 401, 422, 500, 503, *operation.refusals}
    if "{" in operation.path:
        statuses.add(404)
    if operation.has_version:
        statuses.add(412)
    if operation.body is not None or operation.method == "POST":
        statuses |= {408, 413, 415, 429}
    if operation.repeatable:
        statuses.add(409)
    if operation.id == "stream_events":
        statuses.add(429)
    return statuses


def _schema(of: Any) -> dict[str, Any]:
    if isinstance(of, tuple):
        return {"anyOf": [_schema(one) for one in of]}
    return {"$ref": REF.format(name=of.__name__)}


def components_of(operations: Sequence[Operation]) -> dict[str, Any]:
    found: dict[str, Any] = {Problem.__name__: Problem, HealthOut.__name__: HealthOut}
    for operation in operations:
        for of in (operation.body, *operation.answers.values()):
            for one in of if isinstance(of, tuple) else (of,):
                if isinstance(one, type):
                    found[one.__name__] = one
    _, schemas = msgspec.json.schema_components(list(found.values()), schema_hook=_anything, ref_template=REF)
    for name, schema in schemas.items():
        schema["title"] = name
    return dict(sorted(schemas.items()))


def _anything(of: type) -> dict[str, Any]:
    """`object` stands for any JSON; `msgspec` does not say so by itself."""
    return {"description": "any JSON"}


def document_of(operations: Sequence[Operation], *, version: str, needs_token: bool) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = operation_document(operation)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": version or "0", "description": DESCRIPTION.strip()},
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {"schemas": components_of(operations)},
    }
    if needs_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document
