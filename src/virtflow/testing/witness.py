"""A real server as a child process, to be started, killed and asked, and clients who remember what they were told."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from virtflow.testing import crashable
from virtflow.testing.ask import ask
from virtflow.testing.failpoints import VARIABLE
from virtflow.testing.forked import start_forked
from virtflow.testing.ports import free_port

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

READY_WITHIN_S = 60.0
POLL_S = 0.01
ASK_S = 2.0
#: a client that gets no answer repeats for so long, with the same key
PATIENCE_S = 120.0


class Server:
    """One `virtflow serve` that may die at any moment and come back on the same port and database."""

    def __init__(self, *, database_url: str, log: Path, failpoints: str = "", flags: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.failpoints = failpoints
        self._database_url = database_url
        self._log = log
        self._flags = flags
        self.process: ForkServerProcess | None = None
        self.starts = 0

    def start(self, *, failpoints: str | None = None) -> None:
        chosen = self.failpoints if failpoints is None else failpoints
        words = [
            "--port", str(self.port), "--database-url", self._database_url, "--log-level", "warning", *self._flags
        ]  # fmt: skip
        environ = {**os.environ, VARIABLE: chosen}
        self.process = start_forked(crashable.run, words, environ=environ, log=self._log)
        self.starts += 1

    def is_alive(self) -> bool:
        return self.process is not None and self.process.is_alive()

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.join()

    def terminate(self, *, within_s: float = 20.0) -> int:
        assert self.process is not None
        self.process.terminate()
        self.process.join(within_s)
        if self.process.exitcode is None:
            raise TimeoutError(f"it goes on {within_s:g} s after SIGTERM:\n{self.log_tail()}")
        return self.process.exitcode

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            if not self.is_alive():
                raise AssertionError(f"the server died while starting:\n{self.log_tail()}")
            answer = ask(f"{self.url}/readyz", within_s=ASK_S)
            if answer is not None and answer.status_code == 200:
                return
            time.sleep(POLL_S)
        raise AssertionError(f"not ready within {READY_WITHIN_S} s:\n{self.log_tail()}")

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    server.start()
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.kill()


def register_hosts(url: str, *, hosts: int, cores: int) -> None:
    items = [
        {
            "name": f"bm-{number:03d}",
            "address": f"10.0.0.{number % 250 + 1}",
            "capacity": {"cpu": cores * 1000, "memory": cores * 4096, "disk": cores * 100, "vms": cores},
        }
        for number in range(hosts)
    ]
    httpx.post(f"{url}/v1/hosts/batch", json={"items": items}, timeout=30).raise_for_status()


class Witness:
    """A client who writes down what was acknowledged, repeats with the same key what was not, and deletes some."""

    def __init__(self, url: str) -> None:
        self.url = url
        #: key -> (body, the id that was answered)
        self.acknowledged: dict[str, tuple[dict[str, Any], str]] = {}
        self.deleted: set[str] = set()
        self.answers = 0
        self.unanswered = 0

    async def work(self, client: httpx.AsyncClient, stop: asyncio.Event, *, delete_every: int = 5) -> None:
        while not stop.is_set():
            key = str(uuid.uuid4())
            name = f"w-{key[:18]}"
            body: dict[str, Any] = {"resources": {"cpu": 1000, "memory": 1024}, "name": name}
            answer = await self.insist(client, "POST", "/v1/vms", key=key, body=body)
            assert answer.status_code == 202, answer.text
            self.acknowledged[key] = (body, answer.json()["id"])
            if len(self.acknowledged) % delete_every == 0:
                gone = await self.insist(client, "DELETE", f"/v1/vms/{name}")
                assert gone.status_code == 204, gone.text
                self.deleted.add(name)

    async def insist(
        self, client: httpx.AsyncClient, method: str, path: str, *, key: str = "", body: Any = None
    ) -> httpx.Response:
        """Until there is an answer that is not "try again"."""
        deadline = time.monotonic() + PATIENCE_S
        headers = {"Idempotency-Key": key} if key else {}
        while time.monotonic() < deadline:
            try:
                answer = await client.request(method, f"{self.url}{path}", headers=headers, json=body)
            except httpx.HTTPError:
                self.unanswered += 1
            else:
                if answer.status_code not in (429, 503):
                    self.answers += 1
                    return answer
            await asyncio.sleep(0.02)
        raise AssertionError(f"{method} {path} found no answer in {PATIENCE_S} s")

    async def check(self, client: httpx.AsyncClient, *, besides: Collection[str] = ()) -> None:
        """Every acknowledged VM is there exactly once, with the id that was answered, and no other but `besides`."""
        found = {name: vm for name, vm in (await self.found(client)).items() if name not in besides}
        expected = {body["name"]: vm for body, vm in self.acknowledged.values() if body["name"] not in self.deleted}
        assert found == expected

    async def found(self, client: httpx.AsyncClient) -> dict[str, str]:
        """Name and id of every VM that the server lists."""
        found: dict[str, str] = {}
        cursor: str | None = ""
        while cursor is not None:
            query = f"?limit=1000&cursor={cursor}" if cursor else "?limit=1000"
            page = (await client.get(f"{self.url}/v1/vms{query}")).raise_for_status().json()
            for vm in page["items"]:
                assert vm["name"] not in found, f"{vm['name']} is there twice"
                found[vm["name"]] = vm["id"]
            cursor = page["next"]
        return found

    async def check_replays(self, client: httpx.AsyncClient, *, most: int = 200) -> None:
        """The same key and body are answered the same, however often the server died since."""
        for key, (body, vm) in list(self.acknowledged.items())[-most:]:
            answer = await self.insist(client, "POST", "/v1/vms", key=key, body=body)
            assert answer.headers["Idempotency-Replayed"] == "true"
            assert answer.json()["id"] == vm


def fsck(database_url: str) -> dict[str, Any]:
    """`virtflow fsck`, then `--history`, on a database that may be in use; the JSON report of the first."""
    report = _fsck(database_url)
    prove(database_url)
    return report


def prove(database_url: str, *, clients: Sequence[Path] = (), at_rest: bool = False) -> dict[str, Any]:
    """`virtflow fsck --history`; its JSON report. What does not hold is an AssertionError that says it."""
    files = [word for file in clients for word in ("--clients", str(file))]
    return _fsck(database_url, "--history", *files, *(["--at-rest"] if at_rest else []))


def _fsck(database_url: str, *flags: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "virtflow.main", "fsck", *flags, "--database-url", database_url, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))
