"""Pictures that are drawn again when something happens."""

import os
import signal
import subprocess
import sys

from tests.cli.conftest import Program

from virtflow.cli.exits import Exit


def test_a_list_is_drawn_again_when_something_happens(virtflow: Program) -> None:
    virtflow("add", "host", "watched", "--cpu", "4", "--memory", "8GiB", "--pool", "watch")
    words = ["--server", virtflow.server, "get", "hosts", "--pool", "watch", "--watch"]
    with subprocess.Popen(
        [sys.executable, "-m", "virtflow.cli.app", *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)][1].split()[:3] == ["watched", "watch", "ready"]
        virtflow("cordon", "watched")
        assert [process.stdout.readline() for _ in range(3)][2].split()[:3] == ["watched", "watch", "cordoned"]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == Exit.INTERRUPTED


def test_watching_is_for_tables(virtflow: Program) -> None:
    ran = virtflow("get", "hosts", "--watch", "-o", "json")
    assert ran.code == Exit.USAGE
    assert "virtflow events --follow" in ran.err
