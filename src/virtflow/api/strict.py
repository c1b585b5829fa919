"""One strict reading of JSON for every body: all that is wrong with it, each with its place, or the typed value.

`json` of the standard library reads (it can show doubled keys and every odd number), checks made once for each type
look, `msgspec` converts. Hot routes try `msgspec` alone first, see `orders.py`.
"""

import contextlib
import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from virtflow.api.errors import MalformedJson
from virtflow.model.errors import FieldProblem, InvalidRequest
from virtflow.model.limits import BODY_DEPTH_MAX

T = TypeVar("T")

#: a body with more mistakes than that is not repaired one by one
PROBLEMS_MAX = 50
#: longer digits are out of any range, and slow to turn into a number
DIGITS_MAX = 20

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_FOLD = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class Odd:
    """A number that JSON does not know or that is out of any range; every check refuses it as it was written."""

    def __init__(self, written: str) -> None:
        self.written = written if len(written) <= DIGITS_MAX else written[:DIGITS_MAX] + "…"


class Doubled(dict[str, object]):
    """An object in which some keys stand twice."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        keys = [key for key, _ in pairs]
        self.keys_twice = tuple(key for key in self if keys.count(key) > 1)


class Findings(list[FieldProblem]):
    def add(self, pointer: str, detail: str, remedy: str = "") -> None:
        self.append(FieldProblem(pointer, detail, remedy))
        if len(self) >= PROBLEMS_MAX:
            raise _Enough


class _Enough(Exception):
    pass


#: looks at a value, notes what is wrong at a place, returns it as the type wants it (470.0 as 470)
Check = Callable[[Any, str, Findings], Any]


def read(body: bytes, of: type[T]) -> T:
    """The body as that type. InvalidRequest lists everything that is wrong, MalformedJson says that it is no JSON."""
    return take(parse(body), of)


def take(value: object, of: type[T]) -> T:
    """The same for what is parsed already: a piece of a body, a query string."""
    findings = Findings()
    with contextlib.suppress(_Enough):
        value = check_for(of)(value, "", findings)  # type: ignore[arg-type]  # types are hashable
    if findings:
        raise refusal(findings)
    return msgspec.convert(value, of)


def refusal(findings: list[FieldProblem]) -> InvalidRequest:
    """All findings as one error; its sentence is the first, so that a terminal needs no more."""
    first = findings[0]
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    place = f"{first.pointer}: " if first.pointer else ""
    remedy = first.remedy or "correct what `errors` names"
    return InvalidRequest(f"{place}{first.detail}{more}", remedy=remedy, fields=findings)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def parse(body: bytes) -> object:
    """JSON with its oddities kept visible."""
    try:
        value = json.loads(
            body.decode(), object_pairs_hook=_object, parse_constant=Odd, parse_int=_int, parse_float=_float
        )
    except UnicodeDecodeError as error:
        raise MalformedJson(f"byte {error.start} of the body is not UTF-8", remedy="send UTF-8") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise MalformedJson(f"the body is not JSON: {error.msg} at {place}", remedy="send a JSON document") from None
    except RecursionError:
        raise _too_deep() from None
    if _is_deep(body):
        raise _too_deep()
    return value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else Doubled(pairs)


def _int(text: str) -> int | Odd:
    return int(text) if len(text) <= DIGITS_MAX else Odd(text)


def _float(text: str) -> float | Odd:
    number = float(text)
    return number if math.isfinite(number) else Odd(text)


def _is_deep(body: bytes) -> bool:
    """Peels the innermost brackets off, level by level: what is left after the last allowed level is too deep."""
    brackets = _STRING.sub(b"", body).translate(_FOLD, _NOT_BRACKETS)
    for _ in range(BODY_DEPTH_MAX):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _too_deep() -> InvalidRequest:
    problem = FieldProblem("", f"is nested deeper than {BODY_DEPTH_MAX} levels", "flatten it")
    return InvalidRequest(f"the body {problem.detail}", remedy=problem.remedy, fields=[problem])


# ── checking ──────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=256)
def check_for(of: Any) -> Check:
    return _check(msgspec.inspect.type_info(of))


def _check(kind: msgspec.inspect.Type) -> Check:
    match kind:
        case msgspec.inspect.Metadata(type=inner, extra=extra):
            return _ruled(_check(inner), (extra or {}).get("rule"))
        case msgspec.inspect.StructType():
            return _struct(kind)
        case msgspec.inspect.DictType():
            return _dict(kind)
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return _list(kind)
        case msgspec.inspect.UnionType(types=types):
            return _union(types)
        case msgspec.inspect.StrType():
            return _str(kind)
        case msgspec.inspect.IntType():
            return _int_in(kind)
        case msgspec.inspect.FloatType():
            return _float_in(kind)
        case msgspec.inspect.BoolType():
            return _bool
        case msgspec.inspect.NoneType():
            return _null
        case msgspec.inspect.LiteralType(values=values):
            return _one_of([str(value) for value in values])
        case msgspec.inspect.EnumType(cls=cls):
            return _one_of([str(member.value) for member in cls])
    raise TypeError(f"no check for {kind}")


def _ruled(check: Check, rule: Callable[[Any], str | None] | None) -> Check:
    if rule is None:
        return check

    def ruled(value: Any, place: str, findings: Findings) -> Any:
        before = len(findings)
        value = check(value, place, findings)
        if len(findings) == before and (problem := rule(value)):
            findings.add(place, problem)
        return value

    return ruled


def _struct(kind: msgspec.inspect.StructType) -> Check:
    fields = {field.encode_name: _check(field.type) for field in kind.fields}
    required = [field.encode_name for field in kind.fields if field.required]

    def struct(value: Any, place: str, findings: Findings) -> Any:
        if not isinstance(value, dict):
            findings.add(place, f"must be an object, not {word_for(value)}")
            return value
        _refuse_doubled(value, place, findings)
        for name in required:
            if name not in value:
                findings.add(f"{place}/{name}", "is missing")
        clean = {}
        for name, one in value.items():
            check = fields.get(name)
            if check is None:
                findings.add(f"{place}/{_escaped(name)}", "is not a field that is known here", _known(name, fields))
            else:
                clean[name] = check(one, f"{place}/{name}", findings)
        return clean

    return struct


def _known(name: str, fields: Iterable[str]) -> str:
    near = difflib.get_close_matches(name[:100], fields, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(fields) or 'none'}"


def _dict(kind: msgspec.inspect.DictType) -> Check:
    check_key, check_value = _check(kind.key_type), _check(kind.value_type)
    least, most = kind.min_length, kind.max_length

    def check(value: Any, place: str, findings: Findings) -> Any:
        if not isinstance(value, dict):
            findings.add(place, f"must be an object, not {word_for(value)}")
            return value
        _refuse_doubled(value, place, findings)
        _count(len(value), "entries", least, most, place, findings)
        clean = {}
        for key, one in value.items():
            inner = f"{place}/{_escaped(key)}"
            check_key(key, inner, findings)
            clean[key] = check_value(one, inner, findings)
        return clean

    return check


def _list(kind: msgspec.inspect.ListType | msgspec.inspect.VarTupleType) -> Check:
    check_item = _check(kind.item_type)
    least, most = kind.min_length, kind.max_length

    def check(value: Any, place: str, findings: Findings) -> Any:
        if not isinstance(value, list):
            findings.add(place, f"must be an array, not {word_for(value)}")
            return value
        if not _count(len(value), "items", least, most, place, findings):
            return value
        return [check_item(one, f"{place}/{number}", findings) for number, one in enumerate(value)]

    return check


def _count(count: int, what: str, least: int | None, most: int | None, place: str, findings: Findings) -> bool:
    if least is not None and count < least:
        findings.add(place, f"must have at least {least} {what}, not {count}")
        return False
    if most is not None and count > most:
        findings.add(place, f"must have at most {most} {what}, not {count}")
        return False
    return True


def _refuse_doubled(value: dict[str, object], place: str, findings: Findings) -> None:
    for key in getattr(value, "keys_twice", ()):
        findings.add(f"{place}/{_escaped(key)}", "stands twice", "leave one of them")


def _str(kind: msgspec.inspect.StrType) -> Check:
    least, most = kind.min_length or 0, kind.max_length

    def check(value: Any, place: str, findings: Findings) -> Any:
        if not isinstance(value, str):
            findings.add(place, f"must be a string, not {word_for(value)}")
        elif not value.isascii() and _LONE_SURROGATE.search(value):
            findings.add(place, "holds half of a surrogate pair, which is no character")
        elif "\x00" in value:
            findings.add(place, "holds the character NUL")
        elif len(value) < least or (most is not None and len(value) > most):
            findings.add(place, f"must be {least} to {most} characters long, not {len(value)}")
        return value

    return check


def _int_in(kind: msgspec.inspect.IntType) -> Check:
    low, high = kind.ge, kind.le
    words = f"must be a whole number from {low} to {high}" if low is not None else "must be a whole number"

    def check(value: Any, place: str, findings: Findings) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            findings.add(place, f"{words}, not {word_for(value)}")
        elif (low is not None and value < low) or (high is not None and value > high):
            findings.add(place, f"{words}, not {value}")
        return value

    return check


def _float_in(kind: msgspec.inspect.FloatType) -> Check:
    low, high = kind.ge, kind.le
    words = f"must be a number from {low:g} to {high:g}" if low is not None and high is not None else "must be a number"

    def check(value: Any, place: str, findings: Findings) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            findings.add(place, f"{words}, not {word_for(value)}")
        elif (low is not None and value < low) or (high is not None and value > high):
            findings.add(place, f"{words}, not {value:g}")
        return value

    return check


def _bool(value: Any, place: str, findings: Findings) -> Any:
    if not isinstance(value, bool):
        findings.add(place, f"must be true or false, not {word_for(value)}")
    return value


def _null(value: Any, place: str, findings: Findings) -> Any:
    if value is not None:
        findings.add(place, f"must be null, not {word_for(value)}")
    return value


def _one_of(words: list[str]) -> Check:
    choice = _choice(words)

    def check(value: Any, place: str, findings: Findings) -> Any:
        if not isinstance(value, str) or value not in words:
            findings.add(place, f"must be {choice}, not {word_for(value)}")
        return value

    return check


def _choice(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _union(types: tuple[msgspec.inspect.Type, ...]) -> Check:
    """Our unions differ by JSON type, so the type of the value chooses."""
    choices = [(_kinds(one), _check(one)) for one in types]
    words = "must be " + " or ".join(map(_words, types))

    def check(value: Any, place: str, findings: Findings) -> Any:
        for kinds, one in choices:
            if type(value) in kinds:
                return one(value, place, findings)
        findings.add(place, f"{words}, not {word_for(value)}")
        return value

    return check


def _words(kind: msgspec.inspect.Type) -> str:
    match kind:
        case msgspec.inspect.Metadata(type=inner):
            return _words(inner)
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.NoneType():
            return "null"
        case msgspec.inspect.EnumType(cls=cls):
            return _choice([str(member.value) for member in cls])
        case msgspec.inspect.StrType():
            return "a string"
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return "an array"
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return "a number"
        case _:
            return "an object"


def _kinds(kind: msgspec.inspect.Type) -> tuple[type, ...]:
    match kind:
        case msgspec.inspect.Metadata(type=inner):
            return _kinds(inner)
        case msgspec.inspect.StructType() | msgspec.inspect.DictType():
            return (dict, Doubled)
        case msgspec.inspect.BoolType():
            return (bool,)
        case msgspec.inspect.NoneType():
            return (type(None),)
        case msgspec.inspect.IntType():
            return (int, float)
        case msgspec.inspect.FloatType():
            return (int, float)
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return (list,)
        case _:
            return (str,)


def word_for(value: object) -> str:
    """What somebody sent, in words that are safe to show and short."""
    match value:
        case Odd():
            return value.written
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"{value}"
        case str():
            short = value if len(value) <= 40 else value[:39] + "…"
            return json.dumps(short)
        case Mapping():
            return "an object"
        case _:
            return "an array"


def _escaped(name: str) -> str:
    """A key as a part of a JSON pointer, short and always encodable."""
    short = name if len(name) <= 100 else name[:99] + "…"
    return short.replace("~", "~0").replace("/", "~1").encode(errors="backslashreplace").decode()
