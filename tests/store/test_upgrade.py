"""Upgrades: from every version, through a kill at every step, by several processes at once, beside the old."""

import asyncio
import re
import sys
from pathlib import Path

import apsw
import asyncpg
import pytest

from virtflow.store import migrations
from virtflow.store.migrations import Step
from virtflow.store.open import open_store
from virtflow.store.statements import Dialect

NEWEST = migrations.newest(migrations.steps("sqlite"))
VERSIONS = [step.version for step in migrations.steps("sqlite")]

#: rows that the first version could have written
ROWS = """
    INSERT INTO setting (key, value) VALUES ('history_id', 'h'), ('k', 'v');
    INSERT INTO host (name, address, pool, zone, source, created_ms, updated_ms, spec, foreign_use, total, allocatable)
        VALUES (
            'bm-1', '10.0.0.1', 'default', '', 'api', 1, 1, '{"name": "bm-1"}', '{}', '{"cpu": 4000}', '{"cpu": 4000}'
        );
    INSERT INTO room (host_id, instances, used_cpu, limit_cpu) SELECT id, 1, 1000, 4000 FROM host;
    INSERT INTO gone (id, deleted_ms, name) VALUES (<blob>, 7, 'old');
    UPDATE counter SET value = 1 WHERE name = 'event';
    INSERT INTO event (last_seq, first_seq, at_ms, body) VALUES (1, 1, 1, <body>);
"""
_EVENT = '[{"type":"host.registered","kind":"host","id":"bm-1","host":"bm-1"}]'

#: opens a database, and dies inside the transaction of one step: after its work, before its commit
DIES = """
import asyncio, os, sys
from virtflow.store import migrations
from virtflow.store.open import open_store

url, deadly = sys.argv[1], int(sys.argv[2])

class Fatal:
    def __init__(self, step):
        self.sql = step.sql

    @property
    def version(self):  # asked for to write down that the step was taken
        os._exit(9)

missing = migrations.missing
migrations.missing = lambda *args, **words: [
    Fatal(step) if step.version == deadly else step for step in missing(*args, **words)
]

async def main():
    store = open_store(url)
    await store.open()
    await store.close()

asyncio.run(main())
"""


def rows_for(dialect: Dialect) -> str:
    blob = {"sqlite": "x'0a'", "postgresql": "'\\x0a'"}[dialect]
    body = {"sqlite": f"CAST('{_EVENT}' AS BLOB)", "postgresql": f"convert_to('{_EVENT}', 'UTF8')"}[dialect]
    return ROWS.replace("<blob>", blob).replace("<body>", body)


def dialect_of(url: str) -> Dialect:
    return "sqlite" if url.startswith("sqlite") else "postgresql"


async def make_old(url: str, version: int) -> None:
    """A database as the program of that version left it, with something in it."""
    steps = [step for step in migrations.steps(dialect_of(url)) if step.version <= version]
    if dialect_of(url) == "sqlite":
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute("CREATE TABLE schema (version INTEGER NOT NULL) STRICT")
        for step in steps:
            connection.execute(step.sql)
            connection.execute("INSERT INTO schema (version) VALUES ($1)", (step.version,))
        connection.execute(rows_for("sqlite"))
        connection.close()
        return
    server = await asyncpg.connect(url)
    await server.execute("CREATE TABLE schema (version BIGINT NOT NULL)")
    for step in steps:
        await server.execute(step.sql)
        await server.execute("INSERT INTO schema (version) VALUES ($1)", step.version)
    await server.execute(rows_for("postgresql"))
    await server.close()


async def versions_of(url: str) -> list[int]:
    if dialect_of(url) == "sqlite":
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        found = [row[0] for row in connection.execute("SELECT version FROM schema ORDER BY 1")]
        connection.close()
        return found
    server = await asyncpg.connect(url)
    found = [row[0] for row in await server.fetch("SELECT version FROM schema ORDER BY 1")]
    await server.close()
    return found


async def check_content(url: str) -> None:
    store = open_store(url)
    await store.open()
    [host] = [one async for some in store.all_hosts() for one in some]
    assert (host.name, host.instances, host.used) == ("bm-1", 1, {"cpu": 1000})
    assert (await store.history_id(), await store.setting("k")) == ("h", "v")
    assert await store.was_deleted("old")
    assert [event.id async for some in store.scan_events() for event in some] == ["bm-1"]
    async with store.transaction() as tx:
        assert await tx.take_fence() == 1
    await store.close()
    assert await versions_of(url) == VERSIONS


async def open_elsewhere(url: str, *, dying_at: int = 0) -> int:
    """The exit code of a process that opens it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DIES, url, str(dying_at), stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert process.returncode in (0, 9), said.decode()
    return process.returncode


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service("postgresql"))])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/virtflow.db"
    return str(request.getfixturevalue("new_postgresql_url"))


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_database_of_every_version_is_brought_up_to_date(new_url: str, version: int) -> None:
    await make_old(new_url, version)
    await check_content(new_url)


@pytest.mark.slow
async def test_a_kill_in_the_middle_of_any_step_is_as_if_it_had_not_begun(new_url: str) -> None:
    await make_old(new_url, 1)
    for taken, version in enumerate(VERSIONS[1:], start=1):
        assert await open_elsewhere(new_url, dying_at=version) == 9
        assert await versions_of(new_url) == VERSIONS[:taken]
    assert await open_elsewhere(new_url) == 0
    await check_content(new_url)


@pytest.mark.slow
@pytest.mark.service("postgresql")
async def test_several_processes_that_start_at_once_take_each_step_once(new_postgresql_url: str) -> None:
    await make_old(new_postgresql_url, 1)
    codes = await asyncio.gather(
        *(open_elsewhere(new_postgresql_url) for _ in range(3)),
        open_elsewhere(new_postgresql_url, dying_at=NEWEST),  # dies while others wait, or finds the work done
    )
    assert codes[:3] == [0, 0, 0]
    await check_content(new_postgresql_url)


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_step_only_adds_so_that_the_version_before_may_go_on(dialect: Dialect, version: int) -> None:
    """The version before writes rows without the new columns, and reads without them."""
    [step] = [step for step in migrations.steps(dialect) if step.version == version]
    for statement in statements_of(step):
        assert re.match(r"CREATE (UNIQUE )?INDEX|CREATE TABLE|ALTER TABLE \w+ ADD COLUMN|INSERT INTO", statement), (
            statement
        )
        if statement.startswith("ALTER TABLE"):
            assert "NOT NULL" not in statement or "DEFAULT" in statement, statement


def statements_of(step: Step) -> list[str]:
    text = re.sub(r"--[^\n]*", "", step.sql)
    return [" ".join(part.split()) for part in text.split(";") if part.strip()]
