"""What the examination of a database finds: on a fit one nothing, on an unfit one what is wrong and how to mend it."""

import socket
from collections.abc import Iterable
from pathlib import Path

import apsw
import pytest

from virtflow.model.errors import InvalidSetting
from virtflow.model.finding import Finding, Verdict
from virtflow.store import checkup, migrations, postgres
from virtflow.store.checkup import check_postgresql, check_sqlite
from virtflow.store.lock import FileLock
from virtflow.store.open import open_store
from virtflow.testing.postgres import PostgresServer

WAIT_S = 20.0
NEWEST = migrations.newest(migrations.steps("sqlite"))


async def made(url: str) -> None:
    store = open_store(url)
    await store.open()
    await store.close()


def wrong(found: Iterable[Finding]) -> list[str]:
    """What is not well, each with a way out."""
    unwell = [finding for finding in found if finding.verdict is not Verdict.OK]
    assert all(finding.remedy and finding.part == "database" for finding in unwell)
    return [f"{finding.verdict}: {finding.text}" for finding in unwell]


def said(found: Iterable[Finding]) -> str:
    return "\n".join(f"{finding.text}; {finding.remedy}" for finding in found)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def _any_disk_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "FSYNC_MS_WARN", 10_000.0)


# SQLite


async def test_a_fit_file_has_nothing_wrong(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/virtflow.db"
    await made(url)

    found = list(check_sqlite(url))

    assert wrong(found) == []
    assert "an fsync in" in said(found)
    assert f"version {NEWEST}, the newest" in said(found)
    assert "said goodbye" in said(found)
    assert names_in(tmp_path) == {"virtflow.db", "virtflow.db.lock"}  # nothing was left there


async def test_a_file_in_use_is_looked_at_without_its_lock(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/virtflow.db"
    store = open_store(url)
    await store.open()

    assert wrong(check_sqlite(url)) == []
    assert "uses it" in said(check_sqlite(url))

    async with store.transaction() as tx:
        await tx.set_setting("still", "works")
    await store.close()


async def test_who_was_killed_is_told_from_who_said_goodbye(tmp_path: Path) -> None:
    await made(f"sqlite:///{tmp_path}/virtflow.db")
    FileLock(tmp_path / "virtflow.db.lock").leave(cleanly=False)

    assert "was killed" in said(check_sqlite(f"sqlite:///{tmp_path}/virtflow.db"))


def test_what_is_not_there_yet_will_be_made(tmp_path: Path) -> None:
    for place in ("virtflow.db", "folder/virtflow.db"):
        found = list(check_sqlite(f"sqlite:///{tmp_path}/{place}"))
        assert wrong(found) == []
        assert "will be made" in said(found)


def test_a_database_in_memory_is_warned_of() -> None:
    assert wrong(check_sqlite("sqlite://")) == ["warn: it lives in memory and is gone at the end"]


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "virtflow.db").write_bytes(b"no database" * 1000)
    (tmp_path / "virtflow.db").chmod(0o600)

    [line] = wrong(check_sqlite(f"sqlite:///{tmp_path}/virtflow.db"))

    assert line.startswith("bad: ")
    assert "file is not a database" in line


async def test_a_file_that_others_may_read(tmp_path: Path) -> None:
    await made(f"sqlite:///{tmp_path}/virtflow.db")
    (tmp_path / "virtflow.db").chmod(0o644)

    assert wrong(check_sqlite(f"sqlite:///{tmp_path}/virtflow.db")) == [
        f"warn: others may read {tmp_path}/virtflow.db (mode 644)"
    ]


@pytest.mark.parametrize(("version", "verdict"), [(NEWEST - 1, "warn"), (NEWEST + 1, "bad")])
async def test_tables_of_another_version(tmp_path: Path, version: int, verdict: str) -> None:
    await made(f"sqlite:///{tmp_path}/virtflow.db")
    connection = apsw.Connection(str(tmp_path / "virtflow.db"))
    connection.execute("DELETE FROM schema WHERE version > $1", (version,))
    connection.execute("INSERT INTO schema (version) VALUES ($1)", (version,))
    connection.close()

    [line] = wrong(check_sqlite(f"sqlite:///{tmp_path}/virtflow.db"))

    assert line.startswith(f"{verdict}: ")
    assert f"version {version}" in line


def test_little_room_and_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/virtflow.db"
    monkeypatch.setattr(checkup, "FSYNC_MS_WARN", 0.0)
    monkeypatch.setattr(checkup, "DISK_BYTES_WARN", 2**62)
    assert [line.partition(":")[0] for line in wrong(check_sqlite(url))] == ["warn", "warn"]
    monkeypatch.setattr(checkup, "DISK_BYTES_BAD", 2**61)
    assert [line.partition(":")[0] for line in wrong(check_sqlite(url))] == ["bad", "warn"]


def test_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "file_system_of", lambda _: "nfs4")

    assert wrong(check_sqlite(f"sqlite:///{tmp_path}/virtflow.db")) == [
        f"bad: {tmp_path} is on a network file system (nfs4)"
    ]


def test_the_file_system_of_a_folder_is_known() -> None:
    assert checkup.file_system_of(Path("/proc/self")) == "proc"


# PostgreSQL


@pytest.mark.service("postgresql")
class TestPostgresql:
    async def test_a_fit_server(self, postgresql: PostgresServer, postgresql_url: str) -> None:
        found = await check_postgresql(postgresql_url, wait_s=WAIT_S)

        # servers of tests are fast, not safe: that is found
        assert [line.partition(" is off")[0] for line in wrong(found)] == ["bad: fsync", "bad: full_page_writes"]
        for line in ("it is the primary", "may make tables and owns", "connections are free", "a commit takes"):
            assert line in said(found)
        assert f"version {NEWEST}, the newest" in said(found)

    async def test_an_empty_database_is_not_filled_by_looking(self, new_postgresql_url: str) -> None:
        for _ in range(2):
            found = await check_postgresql(new_postgresql_url, wait_s=WAIT_S)
            assert "it is empty" in said(found)

    async def test_nobody_there(self, postgresql_url: str) -> None:
        [line] = wrong(await check_postgresql("postgresql://u@127.0.0.1:1/virtflow", wait_s=WAIT_S))
        assert line.startswith("bad: VIRTFLOW_DATABASE_URL: the database does not answer")

    async def test_somebody_who_says_nothing(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            [line] = wrong(await check_postgresql(f"postgresql://u@127.0.0.1:{port}/virtflow", wait_s=0.2))
        assert "does not answer" in line

    async def test_no_such_database_and_no_such_user(self, postgresql: PostgresServer) -> None:
        assert "no database of that name" in said(await check_postgresql(postgresql.url("nowhere"), wait_s=WAIT_S))
        stranger = f"postgresql://stranger@127.0.0.1:{postgresql.port}/postgres"
        assert "does not let this user in" in said(await check_postgresql(stranger, wait_s=WAIT_S))

    async def test_no_password_is_ever_shown(self, postgresql: PostgresServer) -> None:
        found = await check_postgresql(f"postgresql://stranger:hunter2@127.0.0.1:{postgresql.port}/x", wait_s=WAIT_S)
        assert wrong(found)
        assert "hunter2" not in said(found)

    async def test_a_user_who_may_too_little(self, postgresql: PostgresServer, new_postgresql_url: str) -> None:
        await made(new_postgresql_url)
        name = new_postgresql_url.rpartition("/")[2]
        await postgresql.run(name, f"CREATE ROLE guest_{name} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        guest = f"postgresql://guest_{name}@127.0.0.1:{postgresql.port}/{name}"

        found = await check_postgresql(guest, wait_s=WAIT_S)

        assert f"user guest_{name} may not make tables; GRANT CREATE ON SCHEMA public TO guest_{name}" in said(found)
        assert "tables belong to somebody else (answer, " in said(found)

    async def test_few_connections_left(self, postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checkup, "CONNECTIONS_MAX", 1000)
        assert "raise max_connections" in said(await check_postgresql(postgresql_url, wait_s=WAIT_S))

    async def test_clocks_that_differ(self, postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        now = checkup.time.time
        monkeypatch.setattr(checkup.time, "time", lambda: now() + 90)
        assert "follow the same time servers" in said(await check_postgresql(postgresql_url, wait_s=WAIT_S))

    async def test_an_old_server_is_found_and_refused_at_a_start(
        self, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checkup, "VERSION_MIN", 99)
        assert "is too old; upgrade it to 99 or newer" in said(await check_postgresql(postgresql_url, wait_s=WAIT_S))
        monkeypatch.setattr(postgres, "VERSION_MIN", 99)
        with pytest.raises(InvalidSetting, match="the server is PostgreSQL"):
            await made(postgresql_url)

    @pytest.mark.slow
    async def test_a_replica(self, postgresql: PostgresServer, postgresql_url: str) -> None:
        name = postgresql_url.rpartition("/")[2]
        with postgresql.replica() as replica:
            assert "it is a replica" in said(await check_postgresql(replica.url(name), wait_s=WAIT_S))
