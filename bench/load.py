"""The load: a process of its own that keeps N connections busy and costs the server's core as little as it can.

`python -m bench.load` reads a `Job` as JSON and answers an `Outcome` as JSON. Requests are bytes made beforehand; of an
answer only the status, the length and (where answers name hosts) the VMs without one are read.
"""

import collections
import contextlib
import json
import select
import socket
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench import world
from bench.machine import percentile

ROOT = Path(__file__).parent.parent
RECEIVE_BYTES = 1 << 20
#: nothing answered for so long: give up
SILENCE_S_MAX = 30.0
#: refusals end a run early, for then it measures nothing
REFUSALS_MAX = 1_000
_VARIANTS = {"schedule": 256, "vm": 256, "batch": 8, "batch-one-shape": 1}
_PATHS = {"schedule": "/schedule", "vm": "/v1/vms", "batch": "/v1/vms/batch", "batch-one-shape": "/v1/vms/batch"}
_UNPLACED = b'"host":null'


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to send: ends after so many VMs, or after so many seconds."""

    port: int
    #: of several processes that share the load; empty: `port` alone
    ports: tuple[int, ...] = ()
    kind: str
    connections: int = 64
    batch: int = 1_000
    vms: int = 0
    seconds: float = 60.0
    #: at the start so long is not counted into the figures (but into what was accepted)
    warm_up_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came back."""

    requests: int = 0
    #: VMs of requests that were answered 202, and what they asked for
    accepted: int = 0
    resources: dict[str, int] = field(default_factory=dict)
    #: VMs that the answers showed without a host
    unplaced: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    first_refusal: str = ""
    #: from the first request after the warm-up to the last answer
    seconds: float = 0.0
    vms_per_s: float = 0.0
    requests_per_s: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0
    #: the share of one core that the load itself took
    load_cores: float = 0.0

    def add(self, more: "Outcome") -> None:
        """What was accepted, for the count at the end."""
        self.accepted += more.accepted
        for name, amount in more.resources.items():
            self.resources[name] = self.resources.get(name, 0) + amount


def run_load(job: Job) -> Outcome:
    """In a process of its own, so that it shares no GIL with anybody."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.load"],
        input=json.dumps(asdict(job)),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=job.seconds + 2 * SILENCE_S_MAX + 30,
    )
    if done.returncode:
        raise RuntimeError(f"the load ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return Outcome(**json.loads(done.stdout))


class _Connection:
    """One client: sends, waits for the whole answer, sends again."""

    __slots__ = ("asked", "buffer", "length", "sent_s", "socket", "status", "tail", "variant")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.tail = b""
        self.length = -1
        self.status = b""
        self.variant = 0
        self.sent_s = 0.0


class Load:
    """The loop over all connections."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._requests = _requests(job)
        head = f"POST {_PATHS[job.kind]} HTTP/1.1\r\nHost: 127.0.0.1:{job.port}\r\nContent-Type: application/json\r\n"
        self._messages = [
            f"{head}Content-Length: {len(request.body)}\r\n\r\n".encode() + request.body for request in self._requests
        ]
        self._issued_vms = 0
        self._next_variant = 0
        self._accepted = [0] * len(self._requests)
        self._statuses: collections.Counter[bytes] = collections.Counter()
        self._unplaced = 0
        self._first_refusal = b""
        self._taken_s = array("d")
        self._counted_vms = 0
        self._receive = bytearray(RECEIVE_BYTES)

    def run(self) -> Outcome:
        with contextlib.ExitStack() as stack:
            ports = self._job.ports or (self._job.port,)
            connections = [_Connection(ports[number % len(ports)]) for number in range(self._job.connections)]
            for connection in connections:
                stack.callback(connection.socket.close)
            poll = stack.enter_context(select.epoll())
            return self._run(poll, {connection.socket.fileno(): connection for connection in connections})

    def _run(self, poll: select.epoll, connections: Mapping[int, _Connection]) -> Outcome:
        for number in connections:
            poll.register(number, select.EPOLLIN)
        processor_s, started_s = time.process_time(), time.perf_counter()
        self._count_from_s = started_s + self._job.warm_up_s
        self._end_s = self._count_from_s + self._job.seconds
        busy = sum(self._send(connection) for connection in connections.values())
        heard_s = started_s
        while busy:
            for number, _ in poll.poll(1.0):
                if self._hear(connections[number]):
                    busy -= not self._send(connections[number])
                heard_s = time.perf_counter()
            if time.perf_counter() - heard_s > SILENCE_S_MAX:
                raise TimeoutError(f"no answer for {SILENCE_S_MAX:.0f} s, {busy} connections wait")
        return self._outcome(heard_s, started_s, time.process_time() - processor_s)

    def _send(self, connection: _Connection) -> bool:
        """The next request, or False when there is none."""
        job, now_s = self._job, time.perf_counter()
        if (job.vms and self._issued_vms >= job.vms) or now_s >= self._end_s or self._refusals > REFUSALS_MAX:
            return False
        connection.variant = self._next_variant
        self._next_variant = (self._next_variant + 1) % len(self._messages)
        self._issued_vms += self._requests[connection.variant].vms
        connection.sent_s = now_s
        connection.socket.sendall(self._messages[connection.variant])
        return True

    def _hear(self, connection: _Connection) -> bool:
        """Takes in what has come; True when the answer is complete."""
        count = connection.socket.recv_into(self._receive)
        if not count:
            raise ConnectionError("the server closed a connection")
        data = bytes(memoryview(self._receive)[:count])
        if connection.length < 0:
            data = connection.buffer + data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                connection.buffer = data
                return False
            connection.status, connection.length = _head(data[:end])
            data = data[end + 4 :]
            connection.buffer = b""
            connection.tail = b""
        self._look(connection, data)
        connection.length -= len(data)
        if connection.length > 0:
            return False
        connection.length = -1
        self._note(connection)
        return True

    def _look(self, connection: _Connection, data: bytes) -> None:
        seen = connection.tail + data
        if connection.status == b"202":
            self._unplaced += seen.count(_UNPLACED)
        elif not self._first_refusal:
            self._first_refusal = data[:500]
        connection.tail = seen[-len(_UNPLACED) + 1 :]

    def _note(self, connection: _Connection) -> None:
        self._statuses[connection.status] += 1
        if connection.status == b"202":
            self._accepted[connection.variant] += 1
        if connection.sent_s >= self._count_from_s:
            self._taken_s.append(time.perf_counter() - connection.sent_s)
            if connection.status == b"202":
                self._counted_vms += self._requests[connection.variant].vms

    @property
    def _refusals(self) -> int:
        return self._statuses.total() - self._statuses[b"202"]

    def _outcome(self, ended_s: float, started_s: float, processor_s: float) -> Outcome:
        seconds = max(1e-9, ended_s - self._count_from_s)
        taken_ms = [taken * 1000 for taken in self._taken_s]
        pairs = list(zip(self._requests, self._accepted, strict=True))
        return Outcome(
            requests=self._statuses.total(),
            accepted=sum(request.vms * times for request, times in pairs),
            resources={
                name: sum(request.resources[name] * times for request, times in pairs)
                for name in self._requests[0].resources
            },
            unplaced=self._unplaced,
            statuses={status.decode(): count for status, count in self._statuses.items()},
            first_refusal=self._first_refusal.decode(errors="replace"),
            seconds=seconds,
            vms_per_s=self._counted_vms / seconds,
            requests_per_s=len(taken_ms) / seconds,
            p50_ms=percentile(taken_ms, 50),
            p99_ms=percentile(taken_ms, 99),
            max_ms=max(taken_ms, default=0.0),
            load_cores=processor_s / max(1e-9, ended_s - started_s),
        )


def _requests(job: Job) -> list[world.Request]:
    count = _VARIANTS[job.kind]
    if job.kind == "schedule":
        return world.schedules(count)
    if job.kind == "vm":
        return world.singles(count)
    return world.batches(count, size=job.batch, one_shape=job.kind == "batch-one-shape")


def _head(head: bytes) -> tuple[bytes, int]:
    """Status and length of the body."""
    lowered = head.lower()
    at = lowered.find(b"\r\ncontent-length:")
    if at < 0:
        raise ValueError(f"an answer without Content-Length: {head[:200]!r}")
    return head[9:12], int(_line(lowered, at + 17))


def _line(text: bytes, start: int) -> bytes:
    end = text.find(b"\r\n", start)
    return text[start : end if end >= 0 else len(text)]


def jobs(text: str) -> Iterator[Job]:
    """One or several jobs, as JSON."""
    documents: Any = json.loads(text)
    for document in documents if isinstance(documents, list) else [documents]:
        yield Job(**document)


def main() -> int:
    for job in jobs(sys.stdin.read()):
        print(json.dumps(asdict(Load(job).run())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
