"""What traces cost: the same load without a tracer, with one that traces nobody, and with one that traces all."""

import contextlib
import http.server
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from bench import http as durable
from bench.http import Plan
from bench.load import Job, Outcome, run_load
from bench.machine import Folder
from bench.server import ROOT, Server, wait_for_port
from virtflow.testing.ports import free_port

#: mode -> the share of orders that are traced; None: no tracer at all
MODES: dict[str, float | None] = {"off": None, "on, nobody traced": 0.0, "on, all traced": 1.0}
KINDS = {"vm": durable.SINGLES_CONNECTIONS, "batch": durable.BATCH_CONNECTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One kind of load in one mode."""

    kind: str
    mode: str
    outcome: Outcome
    #: processor time of the server process, which steadies what a busy machine makes of the rates
    server_us_per_request: float

    def document(self) -> dict[str, object]:
        return asdict(self)


def measure(folder: Folder, plan: Plan) -> Iterator[Cost]:
    with _receiver() as endpoint:
        for mode, share in MODES.items():
            yield from _measure_mode(folder, plan, mode, [] if share is None else _flags(endpoint, share))


def _flags(endpoint: str, share: float) -> list[str]:
    return ["--otel-endpoint", endpoint, "--otel-share", str(share)]


def _measure_mode(folder: Folder, plan: Plan, mode: str, flags: list[str]) -> Iterator[Cost]:
    place = folder.path / f"tracing-{len(flags)}-{flags[-1] if flags else 'off'}"
    place.mkdir()
    command = [sys.executable, "-m", "virtflow.main", "serve", *flags]
    with (
        durable.database_in(durable.SQLITE, place) as url,
        Server(url, folder=place, command=command) as server,
    ):
        durable.register_hosts(server, plan.hosts)
        for kind, connections in KINDS.items():
            job = Job(
                port=server.port,
                kind=kind,
                connections=connections,
                vms=plan.batch_vms if kind == "batch" else 0,
                seconds=plan.batch_s_max if kind == "batch" else plan.singles_s,
                warm_up_s=plan.warm_up_s,
            )
            before_s = server.processor_s()
            outcome = run_load(job)
            used_s = server.processor_s() - before_s
            yield Cost(
                kind=kind, mode=mode, outcome=outcome, server_us_per_request=used_s / max(1, outcome.requests) * 1e6
            )


@contextlib.contextmanager
def _receiver() -> Iterator[str]:
    """The address of somebody who takes all traces and looks at none."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.tracing", str(port)], cwd=ROOT)
    try:
        wait_for_port(port, seconds=20)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


class _Deaf(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Deaf).serve_forever()
