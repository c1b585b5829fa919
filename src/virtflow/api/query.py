"""Query strings, read as strictly as bodies and by the same checks."""

import urllib.parse
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from virtflow.api.strict import refusal, take
from virtflow.model.errors import FieldProblem, InvalidRequest

Q = TypeVar("Q")
V = TypeVar("V")

PARAMETERS_MAX = 200
_FLAGS = {"true": True, "false": False}


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call without parameters."""


def given(value: V | UnsetType) -> V | None:
    return None if value is UNSET else value


def read_query(raw: bytes, of: type[Q]) -> Q:
    """The parameters as that record. Unknown and doubled ones are refused, like everything that is not right."""
    if not raw and of is NoQuery:
        return of()
    kinds = {field.encode_name: field.type for field in msgspec.inspect.type_info(of).fields}  # type: ignore[attr-defined]
    values: dict[str, Any] = {}
    findings: list[FieldProblem] = []
    for name, text in _pairs(raw):
        kind = kinds.get(name)
        if kind is None:
            known = ", ".join(kinds) or "none"
            findings.append(FieldProblem(f"?{name[:100]}", "is not a parameter that is known here", f"known: {known}"))
        elif isinstance(_plain(kind), msgspec.inspect.ListType):
            values.setdefault(name, []).append(text)
        elif name in values:
            findings.append(FieldProblem(f"?{name}", "stands twice", "leave one of them"))
        else:
            values[name] = _typed(text, _plain(kind))
    if findings:
        raise refusal(findings)
    return _taken(values, of)


def _taken(values: dict[str, Any], of: type[Q]) -> Q:
    try:
        return take(values, of)
    except InvalidRequest as error:
        raise refusal([msgspec.structs.replace(one, pointer="?" + one.pointer[1:]) for one in error.fields]) from None


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return urllib.parse.parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX
        )
    except ValueError as error:  # not UTF-8, or far too many
        problem = FieldProblem("?", "the query string is not valid", f"UTF-8, at most {PARAMETERS_MAX} parameters")
        raise InvalidRequest(problem.detail, remedy=problem.remedy, fields=[problem]) from error


def _plain(kind: msgspec.inspect.Type) -> msgspec.inspect.Type:
    return _plain(kind.type) if isinstance(kind, msgspec.inspect.Metadata) else kind


def _typed(text: str, kind: msgspec.inspect.Type) -> object:
    """What the text says, if it says anything of that kind; else the text, for the check to refuse."""
    if isinstance(kind, msgspec.inspect.BoolType):
        return _FLAGS.get(text, text)
    if isinstance(kind, msgspec.inspect.IntType) and text.isascii() and text.isdigit() and len(text) < 20:
        return int(text)
    return text


def parameters_of(of: type[Any]) -> list[dict[str, Any]]:
    """The same record as OpenAPI parameters."""
    (_,), components = msgspec.json.schema_components([of], ref_template="#/components/schemas/{name}")
    schema = components[of.__name__]
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": one}
        | ({"style": "form", "explode": True} if one.get("type") == "array" else {})
        for name, one in schema["properties"].items()
    ]
