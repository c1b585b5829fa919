"""The whole service in one process, on a database in memory, asked as a server would ask: through ASGI."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog

from virtflow.api.app import ApiSettings, create_app
from virtflow.config import load_config
from virtflow.engine import strategies
from virtflow.main import Service, build
from virtflow.store.contract import Store
from virtflow.store.open import open_store

JSON = {"content-type": "application/json"}
VM = {"resources": {"cpu": 1000, "memory": 1024}}
SCHEDULE = {"requested_cpu": 8, "requested_memory": 16384, "requested_pool": "ai", "dedicated": True}


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.json["code"]

    @property
    def pointers(self) -> list[str]:
        return [one["pointer"] for one in self.json["errors"]]


class Api:
    """Speaks ASGI to an app. `raw` sends bytes as they are, `body` anything that JSON knows."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        receive: Any = None,
    ) -> Answer:
        chunks = self._chunks(body, raw)
        head = {"host": "127.0.0.1:8080", **(JSON if chunks else {}), **(headers or {})}
        if chunks and "content-length" not in head and not (isinstance(raw, list)):
            head["content-length"] = str(sum(map(len, chunks)))
        elif isinstance(raw, list):
            head.setdefault("transfer-encoding", "chunked")
        sent: list[Any] = []

        async def take(message: Any) -> None:
            sent.append(message)

        target, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in head.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8080),
        }
        await self.app(scope, receive or _given(chunks), take)
        return _answer(sent)

    def _chunks(self, body: object, raw: Any) -> list[bytes]:
        if raw is not None:
            return [raw] if isinstance(raw, bytes) else list(raw)
        return [] if body is None else [json.dumps(body).encode()]

    async def get(self, path: str, **words: Any) -> Answer:
        return await self("GET", path, **words)

    async def post(self, path: str, body: object = None, **words: Any) -> Answer:
        return await self("POST", path, body, **words)

    async def put(self, path: str, body: object = None, **words: Any) -> Answer:
        return await self("PUT", path, body, **words)

    async def patch(self, path: str, body: object = None, **words: Any) -> Answer:
        return await self("PATCH", path, body, **words)

    async def delete(self, path: str, **words: Any) -> Answer:
        return await self("DELETE", path, **words)

    async def until(self, path: str, **fields: object) -> Answer:
        """Asks until the fields are so."""
        for _ in range(300):
            answer = await self.get(path)
            if all(answer.json.get(name) == value for name, value in fields.items()):
                return answer
            await asyncio.sleep(0.01)
        raise AssertionError(f"{path} never became {fields}: {answer.body!r}")


def _given(chunks: list[bytes]) -> Any:
    waiting = list(chunks) or [b""]

    async def receive() -> Any:
        if waiting:
            part = waiting.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(waiting)}
        return await asyncio.Event().wait()

    return receive


def _answer(sent: list[Any]) -> Answer:
    if not sent:
        return Answer(0, {}, b"")
    headers = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    if "content-length" in headers and sent[0]["status"] != 304:
        assert body == b"" or int(headers["content-length"]) == len(body)
    return Answer(sent[0]["status"], headers, body)


def new_service(store: Store | None = None, **flags: str) -> Service:
    config = load_config(
        environ={"HOME": str(Path.cwd())},
        known_strategies=strategies.names(),
        flags={"retry_wait_s": "0.02", "retries_max": "0", "tick_s": "0.1", "webhook_allow": "127.0.0.0/8", **flags},
    )
    return build(config, store=store or open_store("sqlite://"), inventories=[])


def app_of(service: Service, **settings: Any) -> Any:
    return create_app(
        service.house,
        settings=ApiSettings(**{"version": "0.1", "database": "sqlite", "linger_s_max": 0.05, **settings}),
    )


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    structlog.configure(processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(logger: object, name: str, event: object) -> Any:
    raise structlog.DropEvent


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service = new_service()
    async with service.running():
        yield service


@pytest.fixture
async def api(service: Service) -> Api:
    return Api(app_of(service))


def host(name: str = "bm-001", **more: object) -> dict[str, object]:
    """A host as somebody registers it: 64 cores, 256 GiB."""
    return {"name": name, "address": "10.0.0.1", "capacity": {"cpu": 64_000, "memory": 262_144, "disk": 1000}, **more}


#: nobody listens there
WEBHOOK = {"name": "ops", "url": "http://127.0.0.1:9/hook?token=t0ken", "events": ["task.", "host.missing"]}


@pytest.fixture
async def bm(api: Api) -> str:
    """One ordinary host in the pool `default`."""
    answer = await api.post("/v1/hosts", host())
    assert answer.status == 201, answer.body
    return "bm-001"
