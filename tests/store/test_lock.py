"""One owner of a file, and how the last one left."""

from pathlib import Path

import pytest

from virtflow.store.lock import FileLock, Held


def test_the_second_is_told_who_is_first(tmp_path: Path) -> None:
    first = FileLock(tmp_path / "lock")
    with pytest.raises(Held, match=r"process [0-9]+"):
        FileLock(tmp_path / "lock")
    first.leave(cleanly=True)
    FileLock(tmp_path / "lock").leave(cleanly=True)


def test_only_a_goodbye_is_a_clean_end(tmp_path: Path) -> None:
    first = FileLock(tmp_path / "lock")
    assert not first.was_left_cleanly  # nobody knows who had the file before there was a lock
    first.leave(cleanly=False)
    second = FileLock(tmp_path / "lock")
    assert not second.was_left_cleanly
    second.leave(cleanly=True)
    third = FileLock(tmp_path / "lock")
    assert third.was_left_cleanly
    third.leave(cleanly=True)
