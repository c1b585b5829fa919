"""What tests of the command line get: the program in this process, a real server, and texts to compare with."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.client.servers import real_server

from virtflow.cli.app import main

GOLDEN = Path(__file__).parent / "golden"
OURS = ("VIRTFLOW_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "_VIRTFLOW")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(OURS):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with real_server(hosts=10) as address:
        yield address


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Program:
    """`virtflow("get", "hosts")`: runs it here; `server` is what it talks to."""

    def __init__(self, capsys: pytest.CaptureFixture[str], server: str) -> None:
        self._capsys, self.server = capsys, server

    def __call__(self, *words: str) -> Ran:
        self._capsys.readouterr()
        code = main(["--server", self.server, *words])
        captured = self._capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    def line(self, text: str) -> Ran:
        """A line as it was printed for pasting."""
        import shlex

        name, *words = shlex.split(text)
        assert name == "virtflow"
        return self(*words)


@pytest.fixture
def virtflow(capsys: pytest.CaptureFixture[str], server: str) -> Program:
    return Program(capsys, server)


@pytest.fixture
def alone(capsys: pytest.CaptureFixture[str]) -> Program:
    """Without a server: nobody listens there."""
    return Program(capsys, "http://127.0.0.1:1")


def check_golden(name: str, text: str) -> None:
    """Equal to the file of that name. `UPDATE_GOLDEN=1 pytest …` writes it; read the difference before committing."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()
