"""Keys and what they seal: nobody reads it without them, or puts it elsewhere; a wrong file is told in words."""

import base64
import os
from pathlib import Path

import pytest

from virtflow.model.errors import InvalidSetting, Unavailable
from virtflow.store.vault import CLEAR, key_of, open_vault

ONE, TWO = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def test_what_is_sealed_is_opened_by_the_same_key_for_the_same_receiver_alone(file: Path) -> None:
    file.write_text(f"# of this year\n{ONE}\n")
    vault = open_vault(file)
    sealed = vault.seal("whsec_x", "webhook ops")
    assert "whsec_x" not in sealed
    assert key_of(sealed) == vault.seals_with
    assert sealed != vault.seal("whsec_x", "webhook ops")  # not even that two are equal can be seen
    assert open_vault(file).open(sealed, "webhook ops") == "whsec_x"
    with pytest.raises(Unavailable, match="changed in the database"):
        vault.open(sealed, "webhook evil")
    damaged = sealed[:-6] + ("A" if sealed[-6] != "A" else "B") + sealed[-5:]
    with pytest.raises(Unavailable, match="changed in the database"):
        vault.open(damaged, "webhook ops")


def test_the_first_key_seals_and_all_open(file: Path) -> None:
    file.write_text(ONE)
    old = open_vault(file)
    sealed = old.seal("s", "x")
    file.write_text(f"{TWO}\n{ONE}")
    both = open_vault(file)
    assert both.open(sealed, "x") == "s"
    assert both.seals_with != old.seals_with
    assert both.opens_with == {both.seals_with, old.seals_with}
    file.write_text(TWO)
    with pytest.raises(Unavailable, match=old.seals_with) as refused:
        open_vault(file).open(sealed, "x")
    assert "VIRTFLOW_SECRETS_KEY_FILE" in refused.value.remedy


def test_without_keys_and_with_plain_nothing_is_sealed(file: Path) -> None:
    file.write_text(ONE)
    sealed = open_vault(file).seal("s", "x")
    file.write_text(f"plain\n{ONE}")
    opening = open_vault(file)
    assert (opening.seal("s", "x"), opening.open(sealed, "x"), opening.open("s", "x")) == ("s", "s", "s")
    assert open_vault(None) is CLEAR
    assert (CLEAR.seal("s", "x"), CLEAR.open("s", "x")) == ("s", "s")
    with pytest.raises(Unavailable, match="does not have"):
        CLEAR.open(sealed, "x")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"", "it holds no key"),
        (b"# nothing\n\n", "it holds no key"),
        (b"plain\n", "it holds no key"),
        (b"hunter2\n", "key 1 is not 32 bytes in base64"),
        (ONE.encode() + b"\nplain\n", "key 2 is not 32 bytes"),
        (base64.b64encode(b"hunter2"), "key 1 is not 32 bytes"),
        (b"\xff\xfe", "it is not text"),
        ((ONE + "\n").encode() * 17, "more than 16 keys"),
    ],
)
def test_a_wrong_file_is_refused_in_words_that_repeat_nothing_of_it(
    file: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidSetting) as refused:
        open_vault(file)
    assert refused.value.detail.startswith(f"VIRTFLOW_SECRETS_KEY_FILE={str(file)!r} cannot be used: ")
    assert said in refused.value.detail
    assert "openssl rand -base64 32" in refused.value.remedy
    assert "hunter2" not in refused.value.detail


def test_what_is_no_file_keeps_nobody_waiting(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(InvalidSetting, match="it is not a file"):
        open_vault(file)
    with pytest.raises(InvalidSetting, match="cannot be used"):
        open_vault(file.parent)
