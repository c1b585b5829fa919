"""The demo of several processes: real servers, a leader that dies, and nothing left behind."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from virtflow.cli.exits import Exit

pytestmark = [pytest.mark.service("postgresql"), pytest.mark.service("rabbitmq")]


def start(*words: str, folder: Path) -> "subprocess.Popen[str]":
    """With a setting around that is meant for another server."""
    return subprocess.Popen(
        [sys.executable, "-m", "virtflow.testing.demo_cluster", "--hosts", "10", "--port", "0", *words],
        env={**os.environ, "TMPDIR": str(folder), "VIRTFLOW_DATABASE_URL": "sqlite:///elsewhere.db", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    """A database server of another user must get in: what pytest makes is for one user alone."""
    with tempfile.TemporaryDirectory(prefix="virtflow-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_leader_dies_and_the_next_one_places(folder: Path) -> None:
    with start("--exit", folder=folder) as demo:
        out, err = demo.communicate(timeout=280)
    assert (demo.returncode, err) == (Exit.OK, "")
    assert re.search(r"Placing 50 VMs in one request … [\d.]+ s, \d+ placed", out)
    webhook = re.search(r"webhook: (\d+) messages since it was created, (\d+) of them rightly signed", out)
    nats = re.search(r"NATS: +(\d+) messages", out)
    assert webhook
    assert nats
    assert webhook[1] == webhook[2]
    assert int(nats[1]) >= int(webhook[1]) >= 70
    killed = re.search(r"(scheduler-\d) is gone", out)
    new = re.search(r"after-the-leader is on bm-\d+: (scheduler-\d) leads", out)
    assert killed
    assert new
    assert killed[1] != new[1]
    assert "20 VMs asked for and placed without it" in out
    assert "everything that can be judged holds" in out
    assert list(folder.iterdir()) == []


def test_an_interrupt_during_the_start_leaves_nothing(folder: Path) -> None:
    with start(folder=folder) as demo:
        assert demo.stdout is not None
        assert demo.stdout.read(len("Starting")) == "Starting"
        demo.send_signal(signal.SIGINT)
        _, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (Exit.INTERRUPTED, "")
    assert list(folder.iterdir()) == []


def test_a_fleet_without_hosts_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "virtflow.testing.demo_cluster", "--hosts", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == Exit.USAGE
    assert "--hosts is a number from 10 to 10000" in done.stderr
