"""The corpus of bad values in every field of every body: always refused with its place, and nothing is written."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.api.conftest import SCHEDULE, VM, WEBHOOK, Api, host

from virtflow.api.app import OPERATIONS
from virtflow.api.operation import Operation

#: as JSON text, since Python has no words for some of it
NUMBERS = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "-1", "-1e300", "9007199254740992", "9223372036854775808",
    "18446744073709551616", "1" + "0" * 4000, "1.5", "true", '"1"', '" 4 "',
]  # fmt: skip
STRINGS = [
    '"\\ud800"', '"\\u0000"', '"a\\u0000b"', '"../../etc/passwd"', '"%2e%2e%2f"', '"-rf"', '";rm"', '"{{7*7}}"',
    '"a\\nb"', '"\\u202etxt"', json.dumps("x" * 10_240), '"A B"', '"\\u212b/"', "1", "true",
]  # fmt: skip
ALWAYS = ["null", "[[]]", '{"x":{}}', '{"\\ud800":1}', "[" * 100 + "]" * 100]
FLAGS = ["0", "1", '"true"', '"yes"', "NaN", "1e999"]

EXAMPLES: dict[str, Any] = {
    "submit": SCHEDULE,
    "register_host": host("new"),
    "register_hosts": {"items": [host("new")]},
    "replace_host": {"capacity": {"cpu": 1}},
    "change_host": {"zone": "z"},
    "put_pool": {"strategy": ""},
    "create_vm": VM,
    "create_vms": {"items": [VM]},
    "delete_vms": {"names": ["gone"]},
    "explain": VM,
    "create_webhook": WEBHOOK,
    "change_webhook": {"events": []},
    "rotate_webhook": {"overlap_s": 1},
    "replay_webhook": {"after": 0},
}
WITH_BODY = [operation for operation in OPERATIONS if operation.body is not None]


def test_every_body_has_an_example_here() -> None:
    assert {operation.id for operation in WITH_BODY} == set(EXAMPLES)


def bad_values(kind: Any) -> list[str]:
    """What is never right for a field of that type."""
    match kind:
        case msgspec.inspect.Metadata(type=inner):
            return bad_values(inner)
        case msgspec.inspect.UnionType(types=types):
            values = [set(bad_values(one)) for one in types if not isinstance(one, msgspec.inspect.NoneType)]
            nullable = any(isinstance(one, msgspec.inspect.NoneType) for one in types)
            return sorted(set.intersection(*values) - ({"null"} if nullable else set()))
        case msgspec.inspect.BoolType():
            return FLAGS + ALWAYS
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            fraction = isinstance(kind, msgspec.inspect.FloatType)
            return [one for one in NUMBERS if not (fraction and one == "1.5")] + ALWAYS
        case msgspec.inspect.DictType():
            inner = [f'{{"k":{one}}}' for one in bad_values(kind.value_type)]
            keys = [f"{{{one}:1}}" for one in STRINGS if one.startswith('"')]
            return [*inner, *keys, '{"k":1,"k":1}', "NaN", '"x"', "1", "null", "[[]]"]
        case msgspec.inspect.ListType():
            return [f"[{one}]" for one in bad_values(kind.item_type)] + ["NaN", '"x"', "{}", "null", "[]"]
        case msgspec.inspect.StructType():
            return ["NaN", "1", '"x"', "[]", "null", '{"\\u0000":1}']
        case msgspec.inspect.EnumType() | msgspec.inspect.LiteralType():
            return ['"magic"', *STRINGS, *ALWAYS]
        case _:
            return STRINGS + ALWAYS


#: free text may hold these; it is never used as a path, a command or a template
HARMLESS = ['"../../etc/passwd"', '"%2e%2e%2f"', '"-rf"', '";rm"', '"{{7*7}}"', '"A B"', '"\\u212b/"']


def is_right(field: str, value: str) -> bool:
    if field == "labels":
        return value in {f'{{"k":{one}}}' for one in HARMLESS}
    if field == "events":
        return value == "[]"
    return field in {"zone", "rack", "model", "description"} and value in HARMLESS


def bodies(operation: Operation) -> Iterator[tuple[str, str, str]]:
    """(field, bad value, body): each field of the type, and those of its items, one at a time."""
    of = operation.body[0] if isinstance(operation.body, tuple) else operation.body
    example = EXAMPLES[operation.id]
    info: Any = msgspec.inspect.type_info(of)
    for field in info.fields:
        for value in bad_values(field.type):
            yield field.encode_name, value, _with(example, field.encode_name, value)
        if field.encode_name == "items":
            inner: Any = field.type
            while not isinstance(inner, msgspec.inspect.ListType):
                inner = inner.type
            for one in inner.item_type.fields:
                for value in bad_values(one.type):
                    item = _with(example["items"][0], one.encode_name, value)
                    yield one.encode_name, value, f'{{"items":[{item}]}}'


def _with(example: dict[str, Any], field: str, value: str) -> str:
    rest = {name: one for name, one in example.items() if name != field}
    return "{" + json.dumps(rest)[1:-1] + (", " if rest else "") + f'"{field}":{value}}}'


def path_of(operation: Operation) -> str:
    return operation.path.replace("{name}", "bm-001" if operation.tag == "hosts" else "default")


async def state(api: Api) -> list[bytes]:
    return [(await api.get(path)).body for path in ("/v1/hosts", "/v1/pools", "/v1/vms", "/v1/tasks", "/v1/events")]


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda operation: operation.id)
async def test_every_bad_value_in_every_field_is_refused_with_its_place(
    api: Api, bm: str, operation: Operation
) -> None:
    before = await state(api)
    tried = 0
    for field, value, body in bodies(operation):
        if is_right(field, value):
            continue
        answer = await api(operation.method, path_of(operation), raw=body.encode())
        shown = f"{field}={value[:80]}: {answer.status} {answer.body[:300]!r}"
        assert 400 <= answer.status < 500, shown
        assert answer.headers["content-type"] == "application/problem+json", shown
        if answer.code == "malformed_json":
            continue
        assert answer.status == 422, shown
        deep = "[" * 50 in value
        assert answer.pointers, shown
        assert deep or any(f"/{field}" in pointer for pointer in answer.pointers), shown
        tried += 1
    assert tried >= len(NUMBERS + ALWAYS)  # of a body of one number
    assert await state(api) == before


WHOLE = [
    b"", b"null", b"[]", b"1", b'"x"', b"{", b"NaN", b'{"x":1}', b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe",
    b"\x00", b"{}" * 2, b'{"":1}', b'{"__class__":1}',
]  # fmt: skip


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda operation: operation.id)
async def test_every_bad_body_is_refused(api: Api, bm: str, operation: Operation) -> None:
    before = await state(api)
    for body in WHOLE:
        answer = await api(operation.method, path_of(operation), raw=body)
        assert answer.status in (400, 422), (body[:40], answer.body)
        assert answer.headers["content-type"] == "application/problem+json"
    assert await state(api) == before


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda operation: operation.id)
async def test_every_wrong_kind_of_body_is_refused(api: Api, bm: str, operation: Operation) -> None:
    body = json.dumps(EXAMPLES[operation.id]).encode()
    for headers in (
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": ""},
        {"content-encoding": "gzip"},
        {"content-encoding": "br"},
        {"content-encoding": "deflate, gzip"},
    ):
        answer = await api(operation.method, path_of(operation), raw=body, headers=headers)
        assert (answer.status, answer.code) == (415, "wrong_media_type"), headers
        assert answer.json["remedy"]


async def test_every_unknown_parameter_is_refused_with_the_known_ones(api: Api, bm: str) -> None:
    for operation in OPERATIONS:
        if "stream" in operation.path:
            continue
        path = operation.path.replace("{name}", bm).replace("{task_id}", "x").replace("{delivery_id}", "x")
        body = EXAMPLES.get(operation.id)
        answer = await api(operation.method, f"{path}?colour=red", body)
        assert (answer.status, answer.pointers) == (422, ["?colour"]), (operation.path, answer.body)
        assert "known: " in answer.json["remedy"]


QUERY_VALUES = [
    "%00",
    "%ff",
    "%ED%A0%80",
    "a" * 3000,
    "-1",
    "1e999",
    "NaN",
    "%F0%9F%92%A9",
    "'; drop table host --",
    "../",
    "[]",
]


async def test_bad_values_in_every_parameter_are_never_our_defect(api: Api, bm: str) -> None:
    for operation in OPERATIONS:
        if operation.method != "GET" or "{" in operation.path or "stream" in operation.path:
            continue
        for name, value in itertools.product(operation.query.__struct_fields__, QUERY_VALUES):
            answer = await api.get(f"{operation.path}?{name}={value}")
            assert answer.status in (200, 422), (operation.path, name, value, answer.body)
            assert answer.status == 200 or answer.headers["content-type"] == "application/problem+json"
