"""Amounts as people type and read them."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtflow.cli import words
from virtflow.cli.exits import UsageError

NOW = datetime.datetime(2026, 11, 18, 12, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(("text", "millicores"), [("4", 4000), ("0.5", 500), ("1500m", 1500), (" 2 ", 2000), ("0", 0)])
def test_cores(text: str, millicores: int) -> None:
    assert words.cores(text) == millicores


@pytest.mark.parametrize(
    ("text", "mib"),
    [("8GiB", 8192), ("8G", 8192), ("8GB", 8192), ("8 gib", 8192), ("8192", 8192), ("512M", 512), ("1.5T", 1572864)],
)
def test_memory(text: str, mib: int) -> None:
    assert words.memory(text) == mib


@pytest.mark.parametrize(("text", "gib"), [("100", 100), ("100GiB", 100), ("2T", 2048), ("2048M", 2)])
def test_disk(text: str, gib: int) -> None:
    assert words.disk(text) == gib


@pytest.mark.parametrize("text", ["", "-1", "four", "1e3", "0.0001", "1.5m", "4 cores", "٤"])
def test_what_are_no_cores_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(UsageError, match="is not understood") as caught:
        words.cores(text)
    assert "millicores such as 1500m" in caught.value.remedy


@pytest.mark.parametrize("text", ["", "8X", "-8G", "0.3M", "1K", "8GiBs", "G"])
def test_what_is_no_memory_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(UsageError, match="is not understood") as caught:
        words.memory(text)
    assert "8GiB" in caught.value.remedy


@pytest.mark.parametrize("pair", ["gpu", "=a100", ""])
def test_what_is_no_pair_is_refused(pair: str) -> None:
    with pytest.raises(UsageError, match="is not understood"):
        words.key_values([pair], "--label")


@pytest.mark.parametrize("text", ["cpu=nan", "cpu=inf", "cpu=-1", "cpu=x"])
def test_what_is_no_ratio_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not understood"):
        words.ratios([text], "--weight")


@given(st.integers(0, 2**40))
def test_what_is_said_can_be_typed_again(number: int) -> None:
    for dimension in ("cpu", "memory", "disk", "licences"):
        assert words.amount(dimension, words.say(dimension, number)) == number


@pytest.mark.parametrize(
    ("dimension", "number", "said"),
    [
        ("cpu", 1500, "1.5"),
        ("cpu", 4000, "4"),
        ("memory", 8192, "8GiB"),
        ("memory", 1536, "1.5GiB"),
        ("memory", 1000, "1000MiB"),
        ("memory", 2 * 1024**2, "2TiB"),
        ("disk", 500, "500GiB"),
        ("gpu", 0, "0"),
    ],
)
def test_amounts_are_said_shortly(dimension: str, number: int, said: str) -> None:
    assert words.say(dimension, number) == said


@pytest.mark.parametrize(("seconds", "said"), [(-5, "0s"), (90, "90s"), (120, "2m"), (7200, "2h"), (10**6, "11d")])
def test_durations_are_said_shortly(seconds: float, said: str) -> None:
    assert words.say_duration(seconds) == said


def test_a_time_is_said_with_how_long_ago_that_is() -> None:
    assert words.say_time(NOW - datetime.timedelta(minutes=5), NOW) == "2026-11-18 11:55:00Z (5m ago)"
    assert words.say_time(None, NOW) == ""


def test_the_pool_without_a_name_has_one_on_the_line() -> None:
    assert (words.say_pool(""), words.pool_name("-"), words.pool_name("ai")) == ("-", "", "ai")
