"""The demo: a show that ends well, whatever happens."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from virtflow.cli import demo
from virtflow.cli.app import main
from virtflow.cli.child import Child, free_port, interrupts_held, terminate_like_interrupt
from virtflow.cli.exits import CommandError, Exit


@contextlib.contextmanager
def running(*words: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The demo as a process, with settings around that are meant for another server."""
    env = {**os.environ, "TMPDIR": str(folder), "VIRTFLOW_INVENTORY_URL": "http://127.0.0.1:1/nodes", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "virtflow.cli.app", "demo", "--hosts", "20", *words]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    seen = ""
    while text not in seen:
        letter = process.stdout.read(1)
        assert letter, f"ended before {text!r}: {seen}"
        seen += letter
    return seen


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_show_is_shown_and_everything_is_gone_afterwards(tmp_path: Path) -> None:
    port = free_port(0)
    with running("--exit", "--port", str(port), folder=tmp_path) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (Exit.OK, "")
    assert re.search(r"Placing 100 VMs in one request … [\d.]+ s, \d+ placed: [\d,]+/s", out)
    assert re.search(r"Placing 40 more one by one .* 40/40, [\d,]+/s", out)
    assert "bm-020" in out
    assert re.search(r"web-1 fits: bm-\d+ is the best of \d+ possible hosts", out)
    assert "train-1 does not fit." in out
    assert "What would help:" in out
    assert not is_listening(port)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_it_stays_up_until_it_is_told_to_end(tmp_path: Path, number: signal.Signals) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with running("--port", str(taken.getsockname()[1]), folder=tmp_path) as process:
            seen = read_until(process, "virtflow events --follow")
            found = re.search(r"Port \d+ is taken; this demo takes (\d+)\.", seen)
            assert found
            port = int(found[1])
            assert f"export VIRTFLOW_SERVER=http://127.0.0.1:{port}" in seen
            assert is_listening(port)
            process.send_signal(number)
            _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (Exit.OK, "")
    assert not is_listening(port)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_during_the_start_leaves_nothing(tmp_path: Path) -> None:
    port = free_port(0)
    with running("--port", str(port), folder=tmp_path) as process:
        read_until(process, "Starting")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (Exit.INTERRUPTED, "")
    assert not is_listening(port)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_dies_says_its_last_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dying = [sys.executable, "-c", "import sys; print('first'); sys.exit('the disk is full')"]
    monkeypatch.setattr(demo, "server_command", lambda *_: dying)
    assert main(["demo", "--exit"]) == Exit.FAILED
    err = capsys.readouterr().err
    assert "the server ended by itself (exit code 1). It said:\n  | first\n  | the disk is full" in err


def test_a_child_that_does_not_listen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("virtflow.cli.child.STOP_S_MAX", 0.2)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    log = tmp_path / "server.log"
    with Child([sys.executable, "-c", deaf], folder=tmp_path) as child:
        child.wait_until(lambda: "up" in log.read_text(), what="the start", wait_s=20)
        with pytest.raises(CommandError, match=r"what never comes took longer than 0\.1 s"):
            child.wait_until(lambda: False, what="what never comes", wait_s=0.1)
    assert child._process is not None
    assert child._process.returncode == -signal.SIGKILL


def test_an_interrupt_that_was_held_counts_in_the_end() -> None:
    done = []

    def work() -> None:
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            done.append("not cut short")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["not cut short"]


def test_sigterm_ends_like_an_interrupt() -> None:
    def work() -> None:
        with terminate_like_interrupt():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        work()
