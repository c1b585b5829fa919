"""The strict reader: every mistake at once, each with its place; nothing lax is let through."""

import json
import time
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, UnsetType

from virtflow.api.errors import MalformedJson
from virtflow.api.rules import Amount, Labels, Name, Ratio
from virtflow.api.strict import PROBLEMS_MAX, read
from virtflow.model.errors import FieldProblem, InvalidRequest


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    amount: Amount


class Thing(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: Name
    amount: Amount | UnsetType = UNSET
    ratio: Ratio | UnsetType = UNSET
    flag: bool | UnsetType = UNSET
    word: Literal["a", "b"] | UnsetType = UNSET
    labels: Labels | UnsetType = UNSET
    items: Annotated[list[Inner], Meta(min_length=1, max_length=60)] | UnsetType = UNSET
    maybe: Amount | UnsetType | None = UNSET


def problems(body: str | bytes) -> list[FieldProblem]:
    with pytest.raises(InvalidRequest) as caught:
        read(body.encode() if isinstance(body, str) else body, Thing)
    return list(caught.value.fields)


def test_all_mistakes_are_named_at_once() -> None:
    found = problems('{"amount": -1, "ratio": "x", "flag": 1, "word": "c", "items": [{}, {"amount": true}], "nmae": 1}')
    assert {one.pointer for one in found} == {
        "/name", "/amount", "/ratio", "/flag", "/word", "/items/0/amount", "/items/1/amount", "/nmae",
    }  # fmt: skip
    assert all(one.detail for one in found)


@pytest.mark.parametrize("whole", ["470", "470.0", "4.7e2", "47E1"])
def test_a_whole_number_is_whole_however_it_is_written(whole: str) -> None:
    assert read(b'{"name":"a","amount":%s}' % whole.encode(), Thing).amount == 470


@pytest.mark.parametrize(
    "text",
    [
        "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "-1", "4.5", "1e-1", "true", "false", "null", '"4"', '" 4 "',
        "[]", "{}", str(2**40 + 1), str(2**53), str(2**63), str(2**64), "1" + "0" * 4000, "1" + "0" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_amount_is_refused_with_its_place(text: str) -> None:
    (one,) = problems(f'{{"name":"a","amount":{text}}}')
    assert one.pointer == "/amount"
    assert len(one.detail) < 200


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999", "0.009", "100.1", "-1", "true", '"1"', "1" + "0" * 400])
def test_what_is_no_ratio_is_refused_with_its_place(text: str) -> None:
    assert [one.pointer for one in problems(f'{{"name":"a","ratio":{text}}}')] == ["/ratio"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ('{"name":"a","name":"b"}', "/name"),
        ('{"name":"a","labels":{"k":"1","k":"2"}}', "/labels/k"),
        ('{"name":"a","items":[{"amount":1,"amount":1}]}', "/items/0/amount"),
        ('{"name":"a","n\\u0061me":"b"}', "/name"),
    ],
)
def test_a_doubled_key_is_refused_with_its_place(body: str, pointer: str) -> None:
    assert [(one.pointer, one.detail) for one in problems(body)] == [(pointer, "stands twice")]


@pytest.mark.parametrize("text", ["\\ud800", "\\udfff\\ud800", "a\\u0000", "\\u202e", "\\u200b", "\\n", "x" * 254])
def test_text_that_is_no_text_is_refused(text: str) -> None:
    assert [one.pointer for one in problems(f'{{"name":"a","labels":{{"k":"{text}"}}}}')] == ["/labels/k"]


@pytest.mark.parametrize("text", ["", "A", "-a", "a-", "a_b", "../x", "a/b", "a" * 64, "ａ", "a\\n", " a", "\\u0000"])
def test_a_name_is_a_name(text: str) -> None:
    assert [one.pointer for one in problems(f'{{"name":"{text}"}}')] == ["/name"]


def test_keys_are_shown_safely_in_pointers() -> None:
    (one,) = problems('{"name":"a","labels":{"a~/b\\ud800":"x"}}')
    assert one.pointer == "/labels/a~0~1b\\ud800"
    (long,) = problems('{"name":"a","%s":1}' % ("k" * 10_000))
    assert len(long.pointer) < 120


@pytest.mark.parametrize(
    "body", [b"", b" ", b"{", b"nope", b'{"a":1} x', b'{"a":1,}', b"\xef\xbb\xbf{}", b'{"a":"\n"}', b"'a'"]
)
def test_what_is_no_json_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        read(body, Thing)


@pytest.mark.parametrize(
    "body", [b'{"name":"\xff"}', b'{"name":"\xed\xa0\x80"}', b'{"name":"\xc0\x80"}', "{}".encode("utf-16")]
)
def test_what_is_no_utf8_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        read(body, Thing)


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b"[" * 17 + b"]" * 17, b'{"a":' * 500 + b"1" + b"}" * 500, b"[" * 5000 + b"]" * 5000]
)
def test_deep_nesting_is_refused_quickly(body: bytes) -> None:
    started = time.perf_counter()
    (one,) = problems(body)
    assert "nested deeper than 16" in one.detail
    assert time.perf_counter() - started < 1


def test_sixteen_levels_are_not_too_deep_and_brackets_in_strings_do_not_count() -> None:
    deep = "[" * 15 + "]" * 15
    assert [one.pointer for one in problems(f'{{"name":{deep}}}')] == ["/name"]
    assert read(json.dumps({"name": "a", "labels": {"k": "[" * 50 + '\\"{'}}).encode(), Thing).labels == {
        "k": "[" * 50 + '\\"{'
    }


def test_mistakes_without_end_are_cut_off() -> None:
    found = problems(json.dumps({"name": "a", "items": [{"x": 1}] * 60}))
    assert len(found) == PROBLEMS_MAX
    (one,) = problems(json.dumps({"name": "a", "items": [{"amount": 1}] * 61}))
    assert one.detail == "must have at most 60 items, not 61"


def test_null_is_a_value_only_where_it_is_one() -> None:
    assert read(b'{"name":"a","maybe":null}', Thing).maybe is None
    assert [one.pointer for one in problems('{"name":"a","flag":null}')] == ["/flag"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "amount", "labels", "k"]), inner)
    ),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_anything_is_read_or_refused_and_nothing_else(value: object) -> None:
    body = json.dumps(value).encode()
    try:
        thing = read(body, Thing)
    except (InvalidRequest, MalformedJson) as error:
        for one in error.fields:
            (one.pointer + one.detail).encode()
    else:
        assert isinstance(thing, Thing)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with pytest.raises((InvalidRequest, MalformedJson)):
        read(body, Thing)
