"""What is forked is a process like any other: it has its own words, surroundings, output and end."""

import os
import sys
import time
from pathlib import Path

from virtflow.testing.forked import start_forked


def tell() -> int:
    print(os.environ, sys.argv[1:], flush=True)
    print("and what went wrong", file=sys.stderr, flush=True)
    return 3


def sleep() -> int:
    print("sleeping", flush=True)
    time.sleep(600)
    return 0


def test_it_has_its_own_words_surroundings_output_and_exit_code(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start_forked(tell, ["--one", "two"], environ={"ONLY": "this"}, log=log)
    process.join(30)
    assert process.exitcode == 3
    assert log.read_text() == "environ({'ONLY': 'this'}) ['--one', 'two']\nand what went wrong\n"
    assert process.pid != os.getpid()


def test_it_dies_by_a_signal_as_others_do(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start_forked(sleep, [], environ={}, log=log)
    while "sleeping" not in (log.read_text() if log.exists() else ""):
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join(30)
    assert process.exitcode == -9
