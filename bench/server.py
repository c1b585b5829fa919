"""The real server as its own process: started, looked at, ended. Nothing else is ever ended from here."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.machine import processor_s, resident_bytes
from virtflow.testing.ports import free_port

ROOT = Path(__file__).parent.parent
START_S_MAX = 60.0
STOP_S_MAX = 20.0
REQUEST_S_MAX = 120.0


class Server:
    """`virtflow serve` on a free port of this machine."""

    def __init__(self, database_url: str, *, folder: Path, command: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.database_url = database_url
        self._folder = folder
        self._command = list(command) or [sys.executable, "-m", "virtflow.main", "serve"]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process.pid

    def start(self) -> float:
        """Seconds from the start of the process until it says that it is ready."""
        started_s = self.launch()
        self.wait_until_ready()
        return time.perf_counter() - started_s

    def launch(self) -> float:
        """Starts the process and does not wait; returns when that was."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VIRTFLOW_")}
        environment.pop("SCHEDULING_STRATEGY", None)
        environment |= {"XDG_CONFIG_HOME": str(self._folder), "PYTHONPATH": str(ROOT)}
        flags = ["--port", str(self.port), "--database-url", self.database_url, "--log-level", "warning"]
        with self._log.open("ab") as log:
            started_s = time.perf_counter()
            self._process = subprocess.Popen(
                [*self._command, *flags], stdout=log, stderr=log, cwd=ROOT, env=environment, start_new_session=True
            )
        return started_s

    def wait_until_ready(self) -> None:
        end_s = time.perf_counter() + START_S_MAX
        while time.perf_counter() < end_s:
            self.check_alive()
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self._try_get("/readyz") == 200:
                    return
            time.sleep(0.02)
        raise TimeoutError(f"the server was not ready after {START_S_MAX:.0f} s: {self.last_words()}")

    def stop(self) -> None:
        """The polite end: what was handed in is written."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def kill(self) -> None:
        """The end that nobody is told of."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def tell(self, number: signal.Signals) -> None:
        """Sends the process a signal."""
        if self._process is not None:
            self._process.send_signal(number)

    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def processor_s(self) -> float:
        return processor_s(self.pid)

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""

    # ── asking it ─────────────────────────────────────────────────────────────────────────────────

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None)

    def post(self, path: str, body: object) -> Any:
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: object) -> Any:
        with self._connection(REQUEST_S_MAX) as connection:
            text = None if body is None else json.dumps(body)
            headers = {} if text is None else {"Content-Type": "application/json"}
            connection.request(method, path, body=text, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
        if answer.status >= 300:
            raise RuntimeError(
                f"{method} {path} was answered {answer.status}: {content[:800].decode(errors='replace')}"
            )
        return json.loads(content) if content else None

    def _try_get(self, path: str) -> int:
        with self._connection(5.0) as connection:
            connection.request("GET", path)
            return connection.getresponse().status

    @contextlib.contextmanager
    def _connection(self, timeout_s: float) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            yield connection
        finally:
            connection.close()

    def check_alive(self) -> None:
        """Raises when the process ended by itself, with what it said."""
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"the server ended with {self._process.returncode}: {self.last_words()}")

    @property
    def _log(self) -> Path:
        return self._folder / f"server-{self.port}.log"


def wait_for_port(port: int, *, seconds: float) -> None:
    """Returns as soon as somebody listens there."""
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.002)
    raise TimeoutError(f"nobody listens on port {port} after {seconds:.0f} s")
