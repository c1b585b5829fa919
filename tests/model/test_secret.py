"""Secrets never print, whoever prints them."""

import copy
import json
import pickle

import pytest

from virtflow.model.secret import Secret, without_secrets

HIDDEN = "correct-horse"


@pytest.mark.parametrize(
    "show",
    [
        str,
        repr,
        "{}".format,
        "%s".__mod__,
        lambda secret: f"{secret!r:>20}",
        lambda secret: json.dumps({"token": secret}),
        lambda secret: "".join([secret, "x"]),
        lambda secret: secret + "x",
        lambda secret: repr({"token": secret}),
        lambda secret: secret.encode().decode(),
        lambda secret: repr(list(secret)),
    ],
)
def test_whatever_prints_a_secret_prints_the_mask(show) -> None:
    shown = show(Secret(HIDDEN))
    assert HIDDEN not in shown
    assert "*" in shown


def test_only_reveal_gives_it_away() -> None:
    assert Secret(HIDDEN).reveal() == HIDDEN


def test_secrets_are_compared_by_what_they_hide_and_equal_no_text() -> None:
    assert Secret(HIDDEN) == Secret(HIDDEN)
    assert Secret(HIDDEN) != Secret("other")
    assert Secret(HIDDEN) != "***"
    assert len({Secret(HIDDEN), Secret(HIDDEN), Secret("other")}) == 2


def test_an_empty_secret_is_false() -> None:
    assert not Secret("")
    assert Secret("x")


def test_a_copy_keeps_the_secret_and_a_pickle_is_refused() -> None:
    assert copy.deepcopy({"a": Secret(HIDDEN)})["a"].reveal() == HIDDEN
    with pytest.raises(TypeError):
        pickle.dumps(Secret(HIDDEN))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://virtflow:p@ss/w0rd@db:5432/virtflow", "postgresql://***@db:5432/virtflow"),
        ("postgresql:///virtflow?host=/run&password=s3cret", "postgresql:///virtflow?host=/run&password=***"),
        ("https://token@nodes.example/nodes?api_key=abc&page=1", "https://***@nodes.example/nodes?api_key=***&page=1"),
        ("http://nodes.example/nodes", "http://nodes.example/nodes"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
