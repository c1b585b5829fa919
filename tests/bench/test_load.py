"""The load counts what it was answered, whatever the pieces in which answers arrive."""

import json
import socket
import threading
from collections.abc import Iterator

import pytest
from bench.load import Job, Load

from bench import world

PLACED = b'{"items":[{"host":"bm-001"},{"host":"bm-002"}]}'
WAITS = b'{"items":[{"host":"bm-001"},{"host":null}]}'


class Answerer:
    """A server that answers every request alike, a few bytes at a time."""

    def __init__(self, status: str, body: bytes) -> None:
        self._answer = f"HTTP/1.1 {status} \r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.requests: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._thread.join(5)
        self._listener.close()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client:
            while data := client.recv(65536):
                head, _, body = data.partition(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                while len(body) < length:
                    body += client.recv(65536)
                self.requests.append(body)
                for start in range(0, len(self._answer), 11):
                    client.sendall(self._answer[start : start + 11])


@pytest.fixture(params=[("202", PLACED), ("202", WAITS), ("429", b"{}")], ids=["placed", "waits", "refused"])
def answerer(request: pytest.FixtureRequest) -> Iterator[Answerer]:
    made = Answerer(*request.param)
    yield made
    made.close()


def test_what_was_answered_is_counted(answerer: Answerer, request: pytest.FixtureRequest):
    outcome = Load(Job(port=answerer.port, kind="batch", connections=1, batch=2, vms=20, seconds=10)).run()

    kind = request.node.callspec.id
    accepted = 0 if kind == "refused" else 20
    asked = [sum(item["resources"]["cpu"] for item in json.loads(body)["items"]) for body in answerer.requests]
    assert outcome.requests == len(answerer.requests) == 10
    assert outcome.accepted == accepted
    assert outcome.resources["cpu"] == (sum(asked) if accepted else 0)
    assert outcome.unplaced == (10 if kind == "waits" else 0)
    assert outcome.statuses == {"429" if kind == "refused" else "202": 10}


def test_requests_say_what_they_ask_for_in_all():
    for request in world.batches(3, size=50):
        items = json.loads(request.body)["items"]
        assert request.vms == len(items) == 50
        for name in ("cpu", "memory", "disk"):
            assert request.resources[name] == sum(item["resources"][name] for item in items)


def test_a_schedule_request_asks_for_whole_cores():
    for request in world.schedules(20):
        body = json.loads(request.body)
        assert request.resources["cpu"] == body["requested_cpu"] * 1000 > 0
