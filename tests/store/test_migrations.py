"""Migrations: from nothing, again without effect, never backwards, never half."""

import apsw
import asyncpg
import pytest
from tests.store.conftest import OpenAnother

from virtflow.model.errors import InvalidSetting
from virtflow.store import migrations
from virtflow.store.contract import Store
from virtflow.store.migrations import Step
from virtflow.store.open import open_store
from virtflow.store.statements import Dialect


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service("postgresql"))])
def new_url(request: pytest.FixtureRequest, tmp_path: object) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/virtflow.db"
    return str(request.getfixturevalue("new_postgresql_url"))


def known(dialect: Dialect, *more: Step) -> list[Step]:
    return [*migrations.steps(dialect), *more]


async def with_steps(monkeypatch: pytest.MonkeyPatch, url: str, *more: Step) -> Store:
    """A store of a newer program."""
    original = migrations.steps
    monkeypatch.setattr(migrations, "steps", lambda dialect: [*original(dialect), *more])
    store = open_store(url)
    try:
        await store.open()
    finally:
        monkeypatch.setattr(migrations, "steps", original)
    return store


async def rows(url: str, sql: str) -> list[tuple[object, ...]]:
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        try:
            return [tuple(row) for row in connection.execute(sql)]
        finally:
            connection.close()
    server = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await server.fetch(sql)]
    finally:
        await server.close()


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_steps_are_numbered_without_gaps(dialect: Dialect) -> None:
    """A database remembers how far it came: a step that is put between two of those that it took is never taken."""
    assert [step.version for step in known(dialect)] == list(range(1, len(known(dialect)) + 1))


def test_both_databases_have_the_same_steps() -> None:
    assert [step.version for step in known("sqlite")] == [step.version for step in known("postgresql")]


async def test_opening_makes_everything_and_opening_again_nothing(new_url: str) -> None:
    names = set()
    for _ in range(3):
        store = open_store(new_url)
        await store.open()
        names.add(await store.history_id())
        assert (await store.counts()).hosts == 0
        await store.close()
    assert len(names) == 1
    assert await rows(new_url, "SELECT version FROM schema") == [(step.version,) for step in known("sqlite")]


async def test_a_step_is_taken_once_and_in_order(new_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(new_url)
    await store.open()
    await store.close()
    last = migrations.newest(known("sqlite"))
    newer = [
        Step(last + 1, "CREATE TABLE later (a INTEGER)"),
        Step(last + 2, "ALTER TABLE later ADD COLUMN b INTEGER; INSERT INTO later (a, b) VALUES (1, 2)"),
    ]
    for _ in range(2):
        await (await with_steps(monkeypatch, new_url, *newer)).close()
    assert await rows(new_url, "SELECT a, b FROM later") == [(1, 2)]


async def test_a_newer_database_is_refused(new_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    last = migrations.newest(known("sqlite"))
    await (await with_steps(monkeypatch, new_url, Step(last + 1, "CREATE TABLE later (a INTEGER)"))).close()
    with pytest.raises(InvalidSetting, match=f"version {last + 1}, and this program knows them up to {last}") as caught:
        await open_store(new_url).open()
    assert "VIRTFLOW_DATABASE_URL" in caught.value.detail
    assert "newer program" in caught.value.remedy


async def test_a_step_that_fails_leaves_nothing(new_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    last = migrations.newest(known("sqlite"))
    broken = Step(last + 1, "CREATE TABLE later (a INTEGER); INSERT INTO nowhere (a) VALUES (1)")
    with pytest.raises(Exception, match="nowhere"):
        await with_steps(monkeypatch, new_url, broken)
    store = open_store(new_url)
    await store.open()
    await store.close()
    assert await rows(new_url, "SELECT max(version) FROM schema") == [(last,)]
    whole = Step(last + 1, "CREATE TABLE later (a INTEGER)")
    await (await with_steps(monkeypatch, new_url, whole)).close()


@pytest.mark.service("postgresql")
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_the_former_version_goes_on_while_a_newer_one_adds(
    url: str, store: Store, another: OpenAnother, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = migrations.newest(known("sqlite"))
    table = f"later_{last}"
    newer = await with_steps(monkeypatch, url, Step(last + 1, f"CREATE TABLE {table} (a INTEGER)"))
    async with store.transaction() as tx:
        await tx.set_setting("k", "old")
    async with newer.transaction() as tx:
        await tx.set_setting("k", "new")
    assert await store.setting("k") == "new"
    await newer.close()
    server = await asyncpg.connect(url)
    await server.execute(f"DROP TABLE {table}; DELETE FROM schema WHERE version > {last}")
    await server.close()
    assert await another()


@pytest.mark.service("postgresql")
async def test_both_databases_have_the_same_tables_and_columns(postgresql_url: str, tmp_path: object) -> None:
    lite = f"sqlite:///{tmp_path}/virtflow.db"
    store = open_store(lite)
    await store.open()
    await store.close()
    of_sqlite = await rows(
        lite,
        'SELECT m.name, c.name, c."notnull" OR c.pk FROM sqlite_schema m, pragma_table_info(m.name) c '
        "WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' ORDER BY 1, 2",
    )
    of_postgresql = await rows(
        postgresql_url,
        "SELECT table_name::text, column_name::text, (is_nullable = 'NO')::int FROM information_schema.columns "
        'WHERE table_schema = \'public\' ORDER BY table_name COLLATE "C", column_name COLLATE "C"',
    )
    assert of_sqlite == of_postgresql
