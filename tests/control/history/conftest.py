"""A database with a past, made once for each kind of database and copied for each test that corrupts it."""

import asyncio
import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest
from tests.control.conftest import config, host, order, wish
from tests.control.test_schedule import create, ended, register, until_placed

from virtflow.control.history import Report, check_history
from virtflow.control.orders import Receipt
from virtflow.main import Service, build
from virtflow.model.names import id_to_text
from virtflow.model.outlet import Outlet
from virtflow.model.pool import PoolSpec
from virtflow.model.task import WhenUnplaceable
from virtflow.model.views import VmView
from virtflow.store.open import open_store
from virtflow.testing.postgres import PostgresServer

#: an event as JSON has it
EventBody = dict[str, Any]
_numbers = itertools.count(1)


class Database:
    """To be corrupted: statements that both databases understand, and the log as lists of events."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_sqlite = url.startswith("sqlite")

    async def run(self, *statements: str) -> None:
        """Each must change something: a lie that is not planted proves nothing."""
        if self.is_sqlite:
            connection = apsw.Connection(self.url.removeprefix("sqlite:///"))
            for statement in statements:
                connection.execute(statement)
                assert connection.changes() > 0 or statement.startswith("DROP"), statement
            connection.close()
            return
        server = await asyncpg.connect(self.url)
        for statement in statements:
            done = await server.execute(statement)
            assert not done.endswith(" 0"), statement
        await server.close()

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        if self.is_sqlite:
            connection = apsw.Connection(self.url.removeprefix("sqlite:///"))
            found = connection.execute(query).fetchall()
            connection.close()
            return found
        server = await asyncpg.connect(self.url)
        found = [tuple(row) for row in await server.fetch(query)]
        await server.close()
        return found

    async def log(self) -> list[tuple[int, list[EventBody]]]:
        """The number of the last event of each row, and its events."""
        rows = await self.rows("SELECT last_seq, body FROM event ORDER BY last_seq")
        return [(last, json.loads(body)) for last, body in rows]

    async def change_event(self, change: Callable[[EventBody], None], **wanted: object) -> None:
        """One event, the first that has these fields."""
        for last, events in await self.log():
            for event in events:
                if wanted.items() <= event.items():
                    change(event)
                    return await self.put_events(last, events)
        raise AssertionError(f"no event with {wanted}")

    async def put_events(self, last: int, events: list[EventBody]) -> None:
        await self.run(f"UPDATE event SET body = {self.blob(json.dumps(events).encode())} WHERE last_seq = {last}")

    async def add_event(self, event: EventBody) -> None:
        newest = (await self.rows("SELECT value FROM counter WHERE name = 'event'"))[0][0] + 1
        body = self.blob(json.dumps([event]).encode())
        await self.run(
            f"INSERT INTO event (last_seq, first_seq, at_ms, body) VALUES ({newest}, {newest}, 1, {body})",
            f"UPDATE counter SET value = {newest} WHERE name = 'event'",
        )

    async def task_id(self, name: str) -> str:
        return id_to_text((await self.rows(f"SELECT id FROM task WHERE vm_name = '{name}'"))[0][0])

    def blob(self, content: bytes) -> str:
        return f"X'{content.hex()}'" if self.is_sqlite else f"'\\x{content.hex()}'::bytea"

    async def checked(self, **options: Any) -> Report:
        store = open_store(self.url, reading=True)
        await store.open()
        try:
            return await check_history(store, **options)
        finally:
            await store.close()


async def live_a_life(path: Path, url: str) -> None:
    """Everything that can happen to a host, a pool, a task and a VM, under two leaders."""
    settings = config(path, database_url=url)
    service = build(settings, inventories=[])
    async with service.running():
        await register(service, host("bm-1", cores=2), host("bm-2", cores=2))
        await create(service, *(order(f"vm-{number}") for number in range(4)))
        await create(service, order("waits", want=wish(cores=9)))
        await create(service, order("taken-back", want=wish(cores=9)))
        await create(service, order("patient", want=wish(cores=500), deadline_s=10_000))
        hopeless = await create(service, order("hopeless", want=wish(cores=400), when_unplaceable=WhenUnplaceable.FAIL))
        await service.house.vms.delete("vm-0", expected_version=None, actor="test")
        await create(service, order("in-its-place"))
        await service.house.vms.delete("taken-back", expected_version=None, actor="test")
        await service.house.pools.put(PoolSpec(name="default"), expected_version=None, actor="test")
        await ended(service, hopeless[0].task_id)
    service = build(settings, inventories=[])
    async with service.running():
        await service.house.hosts.cordon("bm-2", cordoned=True, expected_version=None, actor="test")
        await register(service, host("bm-3", cores=16))
        await until_placed(service, "waits")
        await service.house.vms.delete("waits", expected_version=None, actor="test")
        await service.house.hosts.delete("bm-3", expected_version=None, actor="test")
        await register(service, host("bm-3", cores=16))
        await with_a_key(service, "answered")
        await create(service, order("own-id", task_id="a.task:of-our-own"))
        async with service.store.transaction() as tx:
            _, newest = await service.store.event_range()
            await tx.add_outlets([Outlet(name="bus", kind="nats", cursor=newest)])
        async with asyncio.timeout(20):  # who writes down what callbacks are owed has read everything
            while any(outlet.cursor < newest for outlet in await service.store.outlets()):
                await asyncio.sleep(0.02)


async def with_a_key(service: Service, name: str) -> None:
    def render(views: list[VmView]) -> tuple[int, bytes, tuple[tuple[str, str], ...]]:
        return 202, json.dumps({"task_id": id_to_text(views[0].task_id)}).encode(), ()

    receipt = Receipt(principal="test", key=f"key-of-{name}", request_hash=b"0" * 16, render=render)
    await service.house.vms.create([order(name)], together=False, actor="test", receipt=receipt)


@pytest.fixture(scope="session")
def _lived_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "virtflow.db"
    asyncio.run(live_a_life(path, f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def _lived_postgresql(postgresql: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    async def live() -> str:
        url = await postgresql.create_database("history")
        await live_a_life(tmp_path_factory.mktemp("history") / "unused", url)
        return "history"

    return asyncio.run(live())


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service("postgresql"))])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A copy of it."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("_lived_sqlite"), tmp_path / "virtflow.db")
        yield Database(f"sqlite:///{tmp_path}/virtflow.db")
        return
    template = request.getfixturevalue("_lived_postgresql")
    server: PostgresServer = request.getfixturevalue("postgresql")
    name = f"history_{next(_numbers)}"
    asyncio.run(server.run("postgres", f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
    yield Database(server.url(name))
    asyncio.run(server.run("postgres", f'DROP DATABASE "{name}" WITH (FORCE)'))
