"""Several real `virtflow serve` processes on one database, to be stopped, killed and asked who leads.

    with cluster(tmp_path, database_url=url, lease_s="1") as them:
        api = them.add("api", role="api")
        them.add("one", role="scheduler")
        them.add("two", role="scheduler", database_url=through_a_proxy)
        them.start()
        them.wait_for_leader().kill()
        leader = them.wait_for_leader()

Settings are those of docs/settings.md: of all in the call of `cluster`, of one process in `add`. A child never sees the
settings of the machine it runs on. Nothing here is asynchronous: call it by `asyncio.to_thread` where a loop goes on.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx

from virtflow.testing import failpoints, wrong_clock
from virtflow.testing.ask import ask
from virtflow.testing.ports import free_port

WITHIN_S = 60.0
POLL_S = 0.02
ASK_S = 2.0
SCHEDULER = "scheduler"


class Process:
    """One `virtflow serve`, which comes back on the same port after a `restart`."""

    def __init__(self, name: str, *, directory: Path, settings: Mapping[str, str]) -> None:
        self.name = name
        self.port = int(settings.get("port", 0)) or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = directory / f"{name}.log"
        #: may be changed before a `restart`
        self.settings = {**settings, "port": str(self.port)}
        #: as `testing/failpoints.py` reads them; empty: the program as it is shipped
        self.failpoints = ""
        #: turns its wall clock while it runs
        self.clock: wrong_clock.WrongClock | None = None
        self.is_stopped = False
        self.starts = 0
        self._home = directory / f"{name}.home"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> None:
        """Returns at once: `wait_until_ready` waits."""
        assert not self.is_alive(), f"{self.name} is running"
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", *self._program()],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.starts += 1
        self.is_stopped = False

    def is_alive(self) -> bool:
        """Also when it is stopped."""
        return self._child is not None and self._child.poll() is None

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                self._child.send_signal(signal.SIGKILL)
            self._child.wait()
        self.is_stopped = False

    def stop(self) -> None:
        """SIGSTOP: it does nothing at all, and its connections stay open."""
        self._running().send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def cont(self) -> None:
        """SIGCONT: it goes on as if nothing had been."""
        self._running().send_signal(signal.SIGCONT)
        self.is_stopped = False

    def terminate(self, *, within_s: float = 20.0) -> int:
        """SIGTERM, and its exit code when it is gone."""
        child = self._running()
        child.terminate()
        return child.wait(within_s)

    def wait_until_gone(self, *, within_s: float = 20.0) -> int:
        """Its exit code when it ends by itself."""
        return self._running().wait(within_s)

    def restart(self) -> None:
        """Killed if it is still there, and ready again."""
        self.kill()
        self.start()
        self.wait_until_ready()

    def ask(self, path: str) -> httpx.Response | None:
        """None when it does not answer in time."""
        if self.is_stopped or not self.is_alive():
            return None
        return ask(f"{self.url}{path}", within_s=ASK_S, headers=self._headers())

    def is_ready(self) -> bool:
        answer = self.ask("/readyz")
        return answer is not None and answer.status_code == 200

    def is_leading(self, office: str = SCHEDULER) -> bool:
        """By its own word. Who is elected scheduler leads when he has the fence and the fleet."""
        answer = self.ask("/readyz")
        return answer is not None and answer.json().get("offices", {}).get(office) == "leading"

    def wait_until_ready(self, *, within_s: float = WITHIN_S) -> None:
        def ready() -> bool:
            assert self.is_alive(), f"{self.name} ended while starting:\n{self.log_tail()}"
            return self.is_ready()

        wait_until(ready, within_s=within_s, otherwise=lambda: f"{self.name} is not ready:\n{self.log_tail()}")

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:])

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._child is not None, f"{self.name} was not started"
        return self._child

    def _program(self) -> list[str]:
        assert not (self.failpoints and self.clock), "one disguise at a time"
        if self.failpoints:
            return ["virtflow.testing.crashable"]
        return ["virtflow.testing.wrong_clock"] if self.clock else ["virtflow.main", "serve"]

    def _headers(self) -> dict[str, str]:
        token = self.settings.get("token", "")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _environment(self) -> dict[str, str]:
        foreign = {name: text for name, text in os.environ.items() if not name.startswith("VIRTFLOW_")}
        ours = {f"VIRTFLOW_{name.upper()}": text for name, text in self.settings.items() if text}
        places = {"XDG_CONFIG_HOME": str(self._home), "XDG_DATA_HOME": str(self._home)}
        tests = {failpoints.VARIABLE: self.failpoints}
        tests[wrong_clock.VARIABLE] = str(self.clock.file) if self.clock else ""
        return {**foreign, **places, **ours, **{name: text for name, text in tests.items() if text}}


class Cluster:
    """Processes by name, in the order in which they were added."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._directory = directory
        self._settings = settings
        self.processes: dict[str, Process] = {}

    def __getitem__(self, name: str) -> Process:
        return self.processes[name]

    def __iter__(self) -> Iterator[Process]:
        return iter(self.processes.values())

    def add(self, name: str, *, role: str = "all", **settings: str) -> Process:
        """One more, not yet started. Its settings go before those of all."""
        assert name not in self.processes, f"{name} is there already"
        process = Process(name, directory=self._directory, settings={**self._settings, "role": role, **settings})
        self.processes[name] = process
        return process

    @property
    def urls(self) -> list[str]:
        return [process.url for process in self]

    def start(self) -> None:
        """Those that do not run, side by side; returns when all are ready."""
        for process in self:
            if not process.is_alive():
                process.start()
        self.wait_until_ready()

    def wait_until_ready(self, *, within_s: float = WITHIN_S) -> None:
        for process in self:
            if process.is_alive() and not process.is_stopped:
                process.wait_until_ready(within_s=within_s)

    def who_leads(self, office: str = SCHEDULER) -> Process | None:
        """The only one that says so; None when nobody does, or more than one."""
        leading = [process for process in self if process.is_leading(office)]
        return leading[0] if len(leading) == 1 else None

    def wait_for_leader(
        self, office: str = SCHEDULER, *, other_than: Process | None = None, within_s: float = WITHIN_S
    ) -> Process:
        found: list[Process] = []

        def leads() -> bool:
            leader = self.who_leads(office)
            if leader is not None and leader is not other_than:
                found.append(leader)
            return bool(found)

        wait_until(leads, within_s=within_s, otherwise=lambda: f"nobody leads:\n{self.log_tails()}")
        return found[0]

    def log_tails(self, lines: int = 30) -> str:
        return "\n".join(f"── {process.name}\n{process.log_tail(lines)}" for process in self)

    def close(self) -> None:
        for process in self:
            process.kill()


@contextlib.contextmanager
def cluster(directory: Path, *, database_url: str, **settings: str) -> Iterator[Cluster]:
    """All processes are killed at the end of the block. Logs stay in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    made = Cluster(directory, {"database_url": database_url, "log_level": "info", **settings})
    try:
        yield made
    finally:
        made.close()


def wait_until(
    holds: Callable[[], bool], *, within_s: float = WITHIN_S, otherwise: Callable[[], str] = lambda: "it never was"
) -> None:
    """Looks again and again, and fails with the words of `otherwise`."""
    end_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end_s, f"waited {within_s:g} s in vain: {otherwise()}"
        time.sleep(POLL_S)
