"""A server of our own, as a child process: started, waited for, and never left behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType

from virtflow.cli.exits import CommandError

LOG_LINES_SHOWN = 12
STOP_S_MAX = 15.0


class Child:
    """A context manager: whatever happens inside, the process is gone afterwards."""

    def __init__(self, command: Sequence[str], *, folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Child":
        # a Ctrl-C between the start and our knowing of it would leave an orphan
        with interrupts_held(), self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own program
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(self._folder),
                start_new_session=True,  # Ctrl-C is for us; we tell the child when it is time
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            # it hangs, or somebody is impatient: its database survives that
            process.kill()
            process.wait()

    def check(self) -> None:
        """Says what it said last when it is gone."""
        if self._process is None or self._process.poll() is None:
            return
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        said = "\n".join(f"  | {line}" for line in lines) or "  | (nothing)"
        raise CommandError(f"the server ended by itself (exit code {self._process.returncode}). It said:\n{said}")

    def wait_until(self, is_so: Callable[[], bool], *, what: str, wait_s: float) -> None:
        end = time.monotonic() + wait_s
        while not is_so():
            self.check()
            if time.monotonic() > end:
                raise CommandError(
                    f"{what} took longer than {wait_s:g} s", remedy="is the machine very busy? Try again"
                )
            time.sleep(0.05)


def server_command(*words: str) -> list[str]:
    # -P: the folder we happen to be in may hold a file called like one of the library's
    return [sys.executable, "-P", "-m", "virtflow.main", "serve", *words]


def free_port(wanted: int) -> int:
    """That one, or any other when it is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise CommandError("this machine has no free port")


def _environment(folder: Path) -> dict[str, str]:
    """Ours, without settings meant for another server: neither variables nor the usual file."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("VIRTFLOW_") and name != "SCHEDULING_STRATEGY"
    }
    return {**kept, "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """A Ctrl-C in here counts at the end of it."""
    came: list[int] = []

    def remember(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def terminate_like_interrupt() -> Iterator[None]:
    """SIGTERM ends us as Ctrl-C does: with everything cleaned up."""
    before = signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
