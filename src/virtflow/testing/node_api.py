"""A small node API with hosts that exist nowhere, to try an inventory: `python -m virtflow.testing.node_api`."""

import argparse
import asyncio
import errno
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from virtflow.model.host import HostSpec
from virtflow.model.resources import CPU, DISK, GPU, MEMORY, VMS
from virtflow.testing.fleets import simulated_fleet

HOST = "127.0.0.1"
PORT = 5000
PATH = "/nodes"
EXIT_CONFIGURATION = 78
_HEAD_BYTES_MAX = 16 * 2**10
_HEAD_WAIT_S = 10.0

Node = Mapping[str, object]

#: Two nodes as the first node API of this kind had them, and the nodes that worked examples ask for.
EXAMPLE_NODES: tuple[Node, ...] = tuple(
    MappingProxyType(node)
    for node in (
        {
            "name": "bm01",
            "ip": "10.0.1.1",
            "cpu": 16,
            "memory": 32_768,
            "storage": 1000,
            "usage_cpu": 0.3,
            "usage_mem": 0.4,
            "pool": "default",
            "dedicated": False,
            "model": "HPE ProLiant DL360 Gen10",
            "max_vms": 20,
            "current_vms": 5,
        },
        {
            "name": "bm02",
            "ip": "10.0.1.2",
            "cpu": 32,
            "memory": 65_536,
            "storage": 2000,
            "usage_cpu": 0.7,
            "usage_mem": 0.6,
            "pool": "high-performance",
            "dedicated": True,
            "model": "Dell PowerEdge R740",
            "max_vms": 15,
            "current_vms": 10,
        },
        {
            "name": "bm-001",
            "ip": "10.0.0.1",
            "cpu": 32,
            "memory": 131_072,
            "storage": 2000,
            "usage_cpu": 0.1,
            "usage_mem": 0.1,
            "pool": "general",
            "dedicated": False,
            "model": "HPE ProLiant DL360 Gen10",
            "max_vms": 40,
            "current_vms": 2,
        },
        {
            "name": "bm-002",
            "ip": "10.0.0.2",
            "cpu": 32,
            "memory": 131_072,
            "storage": 2000,
            "usage_cpu": 0.5,
            "usage_mem": 0.5,
            "pool": "general",
            "dedicated": True,
            "model": "HPE ProLiant DL360 Gen10",
            "max_vms": 40,
            "current_vms": 10,
        },
        {
            "name": "bm-003",
            "ip": "10.0.0.3",
            "cpu": 64,
            "memory": 262_144,
            "storage": 4000,
            "usage_cpu": 0.2,
            "usage_mem": 0.25,
            "pool": "ai",
            "dedicated": True,
            "model": "HPE ProLiant DL380a Gen11",
            "max_vms": 20,
            "current_vms": 2,
            "gpu": 4,
            "labels": {"gpu": "a100"},
        },
        {
            "name": "bm-004",
            "ip": "10.0.0.4",
            "cpu": 64,
            "memory": 262_144,
            "storage": 4000,
            "usage_cpu": 0.4,
            "usage_mem": 0.5,
            "pool": "ai",
            "dedicated": True,
            "model": "Dell PowerEdge R760xa",
            "max_vms": 20,
            "current_vms": 6,
            "gpu": 2,
            "labels": {"gpu": "l40s"},
        },
    )
)


def node_of(spec: HostSpec) -> Node:
    """A simulated host as a node API describes it: idle, in whole cores."""
    return {
        "name": spec.name,
        "ip": spec.address,
        "cpu": spec.capacity[CPU] // 1000,
        "memory": spec.capacity[MEMORY],
        "storage": spec.capacity[DISK],
        "usage_cpu": 0.0,
        "usage_mem": 0.0,
        "pool": spec.pool,
        "dedicated": spec.dedicated,
        "model": spec.model,
        "max_vms": spec.capacity[VMS],
        "current_vms": 0,
        "gpu": spec.capacity.get(GPU, 0),
        "labels": spec.labels,
        "zone": spec.zone,
        "rack": spec.rack,
    }


def simulated_nodes(hosts: int) -> list[Node]:
    return [node_of(spec) for spec in simulated_fleet(hosts)]


class _Answer(NamedTuple):
    status: str
    body: bytes
    etag: str = ""

    def on_the_wire(self, *, with_body: bool) -> bytes:
        lines = [
            f"HTTP/1.1 {self.status}",
            "Content-Type: application/json",
            f"Content-Length: {len(self.body)}",
            *([f"ETag: {self.etag}"] if self.etag else []),
            "Connection: close",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + (self.body if with_body else b"")


class NodeApi:
    """Answers `GET /nodes`, with an ETag. One request per connection is enough for a mock."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.set_nodes(nodes)

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        self._body = json.dumps([dict(node) for node in nodes]).encode()
        self._etag = f'"{hashlib.sha256(self._body).hexdigest()[:16]}"'

    async def start(self, host: str = HOST, port: int = PORT) -> asyncio.Server:
        return await asyncio.start_server(self._serve, host, port, limit=_HEAD_BYTES_MAX)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_WAIT_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            writer.write(self._answer(head).on_the_wire(with_body=not head.startswith("HEAD ")))
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that went away, or speaks something else
        finally:
            writer.close()

    def _answer(self, head: str) -> _Answer:
        request, *headers = head.split("\r\n")
        method, _, rest = request.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if path.rstrip("/") != PATH:
            return _Answer("404 Not Found", b'{"detail": "only /nodes is here"}')
        if method not in {"GET", "HEAD"}:
            return _Answer("405 Method Not Allowed", b'{"detail": "only GET is allowed"}')
        if any(self._etag in header for header in headers if header.lower().startswith("if-none-match:")):
            return _Answer("304 Not Modified", b"", self._etag)
        return _Answer("200 OK", self._body, self._etag)


def run(host: str = HOST, port: int = PORT, nodes: Sequence[Node] = EXAMPLE_NODES) -> int:
    """Serve until interrupted; the exit code of a program."""
    try:
        asyncio.run(_run(host, port, nodes))
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        print(_why_not(error, host, port), file=sys.stderr)
        return EXIT_CONFIGURATION
    return 0


async def _run(host: str, port: int, nodes: Sequence[Node]) -> None:
    async with await NodeApi(nodes).start(host, port) as server:
        port = server.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        print(f"{len(nodes)} nodes at http://{shown}:{port}{PATH} (Ctrl-C ends)", flush=True)
        await server.serve_forever()


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"virtflow: port {port} of {host} is taken by another program; choose another one with --port"
    return f"virtflow: cannot listen on {host}, port {port}: {error.strerror or error}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="virtflow node-api", description="A node API with hosts that exist nowhere.")
    parser.add_argument("--host", default=HOST, help="the address to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=PORT, help="the port (default %(default)s)")
    parser.add_argument("--hosts", type=int, metavar="N", help="that many simulated hosts, not the example nodes")
    given = parser.parse_args(argv)
    if (given.hosts is not None and given.hosts < 0) or not 0 <= given.port <= 65535:
        parser.error("--hosts is 0 or more, --port from 0 to 65535")
    return run(given.host, given.port, EXAMPLE_NODES if given.hosts is None else simulated_nodes(given.hosts))


if __name__ == "__main__":
    sys.exit(main())
