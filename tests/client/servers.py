"""Servers to test clients against: one that follows a script, for faults, and the real one."""

import contextlib
import http.server
import json
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from virtflow.cli.child import Child, free_port, server_command
from virtflow.client import ApiError, Client, NotReachable, Patience

#: as if the machine fell silent in the middle of the answer
CUT = object()


@dataclass(frozen=True)
class Answer:
    body: object = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> object:
        return json.loads(self.body)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: "Scripted"

    def do_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append(Seen(self.command, self.path, dict(self.headers.items()), body))
        answer = self.server.script.pop(0) if len(self.server.script) > 1 else self.server.script[0]
        self.close_connection = True
        if not isinstance(answer, Answer):
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.content())

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_any  # noqa: N815  # so the library finds them

    def log_message(self, *args: object) -> None:
        pass


class Scripted(http.server.ThreadingHTTPServer):
    """Answers in the order of its script, the last one for ever, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self, script: Sequence[object]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = list(script)
        self.seen: list[Seen] = []
        self.slept: list[float] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def client(self, **settings: object) -> Client:
        """A client that does not really wait; how long it would have is in `slept`."""
        return Client(self.address, sleep=self.slept.append, chance=lambda: 1.0, **settings)  # type: ignore[arg-type]


@contextlib.contextmanager
def scripted(*script: object) -> Iterator[Scripted]:
    server = Scripted(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def real_server(hosts: int = 10) -> Iterator[str]:
    """The address of a server with a simulated fleet and a fresh database."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port(0)
        words = ("--port", str(port), "--simulate", str(hosts), "--database-url", f"sqlite://{folder / 'test.db'}")
        address = f"http://127.0.0.1:{port}"
        with Child(server_command(*words), folder=folder) as child:
            with Client(address, patience=Patience(connect_tries_max=1, tries_max=1)) as client:
                child.wait_until(lambda: _is_ready(client, hosts), what="the start", wait_s=60)
            yield address


def _is_ready(client: Client, hosts: int) -> bool:
    try:
        return client.is_ready() and sum(pool.hosts for pool in client.fleet().pools) >= hosts
    except (NotReachable, ApiError):
        return False
