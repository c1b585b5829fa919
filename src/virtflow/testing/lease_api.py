"""A small Kubernetes API that knows Lease objects and nothing else: it compares and sets as the real one does."""

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn

NAMESPACE = "virtflow"
TOKEN = "a-token"  # noqa: S105  of nobody
_PATH = re.compile(r"/apis/coordination\.k8s\.io/v1/namespaces/(?P<namespace>[^/]+)/leases(?:/(?P<name>[^/]+))?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")

Answer = tuple[int, dict[str, Any]]


class FakeLeaseApi:
    """Faults hold until they are taken back."""

    def __init__(self) -> None:
        self.url = ""
        self.leases: dict[str, dict[str, Any]] = {}
        #: verbs that the token's role allows
        self.verbs = {"get", "create", "update"}
        #: answered instead of anything else
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        #: the next so many changes are made, and their answers lost
        self.answers_lost = 0
        self.asked = 0
        self._versions = 0
        self._flowing = asyncio.Event()
        self._flowing.set()

    def stall(self) -> None:
        """Questions are taken and not answered."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    def account(self, folder: Path) -> Path:
        """What is mounted in a pod, for this API."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "token").write_text(TOKEN + "\n")
        (folder / "namespace").write_text(NAMESPACE)
        return folder

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """As uvicorn wants it."""
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.asked += 1
        await self._flowing.wait()
        status, answer = self._answer(scope, body)
        if status in (200, 201) and scope["method"] != "GET" and self.answers_lost:
            self.answers_lost -= 1
            status, answer = 504, _failure(504, "the answer was lost")
        headers = [(b"content-type", b"application/json")]
        headers += [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    def _answer(self, scope: Any, body: bytes) -> Answer:
        if self.status is not None:
            return self.status, _failure(self.status, "as the test wants it")
        if dict(scope["headers"]).get(b"authorization") != f"Bearer {TOKEN}".encode():
            return 401, _failure(401, "Unauthorized")
        verb = {"GET": "get", "POST": "create", "PUT": "update"}.get(scope["method"], "")
        if verb not in self.verbs:
            return 403, _failure(403, f"cannot {verb} resource leases")
        path = _PATH.fullmatch(scope["path"])
        if path is None or (verb == "create") != (path["name"] is None):
            return 404, _failure(404, "the server could not find the requested resource")
        dry = b"dryRun=All" in scope["query_string"]
        if verb == "get":
            return self._get(path["namespace"], path["name"])
        lease = json.loads(body)
        if verb == "create":
            return self._create(path["namespace"], lease, dry=dry)
        return self._replace(path["namespace"], path["name"], lease, dry=dry)

    def _get(self, namespace: str, name: str) -> Answer:
        found = self.leases.get(f"{namespace}/{name}")
        return (200, found) if found else (404, _failure(404, f"leases {name!r} not found"))

    def _create(self, namespace: str, lease: dict[str, Any], *, dry: bool) -> Answer:
        name = lease["metadata"]["name"]
        if namespace != NAMESPACE:
            return 404, _failure(404, f"namespaces {namespace!r} not found")
        if f"{namespace}/{name}" in self.leases:
            return 409, _failure(409, f"leases {name!r} already exists")
        return 201, self._kept(namespace, name, lease, dry=dry)

    def _replace(self, namespace: str, name: str, lease: dict[str, Any], *, dry: bool) -> Answer:
        found = self.leases.get(f"{namespace}/{name}")
        if found is None:  # Kubernetes makes a Lease that is replaced where there is none
            return self._create(namespace, lease, dry=dry)
        if lease["metadata"].get("resourceVersion") != found["metadata"]["resourceVersion"]:
            return 409, _failure(409, "the object has been modified; please apply your changes to the latest version")
        return 200, self._kept(namespace, name, lease, dry=dry)

    def _kept(self, namespace: str, name: str, lease: dict[str, Any], *, dry: bool) -> dict[str, Any]:
        assert _NAME.fullmatch(name), name
        assert lease["kind"] == "Lease"
        self._versions += 1
        metadata = {**lease["metadata"], "namespace": namespace, "resourceVersion": str(self._versions)}
        kept = {**lease, "metadata": metadata}
        if not dry:
            self.leases[f"{namespace}/{name}"] = kept
        return kept


def _failure(status: int, message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status}


@contextlib.asynccontextmanager
async def fake_lease_api() -> AsyncIterator[FakeLeaseApi]:
    """Serving inside the block, on `url`."""
    api = FakeLeaseApi()
    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    api.url = f"http://127.0.0.1:{door.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(api, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    serving = asyncio.create_task(server.serve(sockets=[door]))
    try:
        while not server.started:  # noqa: ASYNC110  it says so in no other way
            await asyncio.sleep(0.01)
        yield api
    finally:
        api.flow()
        server.should_exit = True
        await serving
        door.close()
