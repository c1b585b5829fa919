"""fsck sees what is planted: each lie of a row or an event, alone."""

from pathlib import Path

import apsw
import pytest
from tests.control.conftest import config, host, order, wish
from tests.control.test_schedule import create, register

from virtflow.control.fsck import Report, fsck
from virtflow.main import build
from virtflow.store.open import open_store


async def a_used_database(folder: Path) -> Path:
    path = folder / "virtflow.db"
    service = build(config(path), inventories=[])
    async with service.running():
        await register(service, host("bm-1", cores=4), host("bm-2", cores=4))
        await create(service, *(order(f"vm-{n}") for n in range(6)))
        await create(service, order("waits", want=wish(cores=9)))
        await service.house.vms.delete("vm-0", expected_version=None, actor="test")
        await service.house.hosts.cordon("bm-2", cordoned=True, expected_version=None, actor="test")
    return path


async def checked(path: Path) -> Report:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    try:
        return await fsck(store)
    finally:
        await store.close()


async def test_an_honest_database_holds(tmp_path: Path) -> None:
    report = await checked(await a_used_database(tmp_path))
    assert report.violations == []
    assert (report.hosts, report.instances, report.tasks) == (2, 6, 7)


@pytest.mark.parametrize(
    "lie",
    [
        "UPDATE room SET used_cpu = used_cpu - 1000 WHERE host_id = 1",
        "UPDATE room SET instances = instances + 1 WHERE host_id = 1",
        "UPDATE room SET used_cpu = used_cpu + 1, shrunk = 1 WHERE host_id = 2",
        "DELETE FROM instance WHERE rowid IN (SELECT rowid FROM instance) AND name = 'vm-1'",
        "UPDATE instance SET host_id = 3 - host_id WHERE name = 'vm-2'",
        "UPDATE task SET state = 0, ended_ms = NULL WHERE vm_name = 'vm-3'",
        "UPDATE task SET version = version + 1 WHERE vm_name = 'waits'",
        "DELETE FROM task WHERE vm_name = 'vm-4'",
        "UPDATE host SET cordoned = 0, version = version + 1 WHERE name = 'bm-2'",
        "DELETE FROM event WHERE first_seq = (SELECT first_seq FROM event ORDER BY first_seq LIMIT 1 OFFSET 1)",
    ],
)
async def test_each_planted_lie_is_found(tmp_path: Path, lie: str) -> None:
    path = await a_used_database(tmp_path)
    connection = apsw.Connection(str(path))
    connection.execute(lie.replace("rowid IN (SELECT rowid FROM instance) AND ", ""))
    assert connection.changes() > 0, "the lie was not planted"
    connection.close()
    assert (await checked(path)).violations_total > 0
