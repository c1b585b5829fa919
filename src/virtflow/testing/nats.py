"""A real NATS server with JetStream for tests: its own directory and port, thrown away."""

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nats
import nats.js.errors

from virtflow.testing.children import die_with_parent
from virtflow.testing.ports import free_port, is_open

START_S_MAX = 20.0
READ_S_MAX = 1.0
_POLL_S = 0.02


class NatsServer:
    """One server. What it stored survives a kill and a new start."""

    def __init__(self, directory: Path, *, port: int, options: tuple[str, ...] = ()) -> None:
        self._directory = directory
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        words = ["-a", "127.0.0.1", "-p", str(self.port), *self._options]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(find_program()), *words],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(),  # noqa: PLW1509  one system call and nothing else
            )
        self._wait_until_ready()

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    async def bodies(self, stream: str) -> list[bytes]:
        """Everything that a stream holds, in its order."""
        client = await nats.connect(self.url, allow_reconnect=False)
        try:
            context = client.jetstream()
            held = (await context.stream_info(stream)).state
            numbers = range(held.first_seq, held.last_seq + 1) if held.messages else range(0)
            return [(await context.get_msg(stream, number)).data or b"" for number in numbers]
        except nats.js.errors.NotFoundError:
            return []
        finally:
            await client.close()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_S_MAX)
            self._process = None

    def _wait_until_ready(self) -> None:
        end_s = time.monotonic() + START_S_MAX
        while not is_open(self.port):
            if time.monotonic() > end_s or (self._process and self._process.poll() is not None):
                raise RuntimeError(f"NATS did not start: {(self._directory / 'log').read_text()[-1000:]}")
            time.sleep(_POLL_S)


@contextlib.contextmanager
def nats_server(*options: str, jetstream: bool = True) -> Iterator[NatsServer]:
    """Running inside the block. `options` are the program's own: `"--user", "a", "--pass", "b"`."""
    directory = Path(tempfile.mkdtemp(prefix="virtflow-nats-"))
    with_streams = ("-js", "-sd", str(directory)) if jetstream else ()
    server = NatsServer(directory, port=free_port(), options=(*with_streams, *options))
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def find_program() -> Path:
    """Beside this Python, where a wheel put it, else the system's."""
    beside = Path(sys.executable).parent / "nats-server"
    if beside.exists():
        return beside
    if found := shutil.which("nats-server"):
        return Path(found)
    raise FileNotFoundError("nats-server is not on this machine: install the package nats-server")
