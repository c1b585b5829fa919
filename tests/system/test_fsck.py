"""`virtflow fsck` beside a server that is at work."""

import asyncio
from pathlib import Path

import httpx

from virtflow.testing.witness import Server, Witness, fsck, register_hosts, running


async def test_a_database_in_use_is_checked_as_one_commit_left_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/virtflow.db"
    server = Server(database_url=url, log=tmp_path / "server.log")
    with running(server):
        register_hosts(server.url, hosts=10, cores=500)
        witness, stop = Witness(server.url), asyncio.Event()
        async with httpx.AsyncClient(timeout=10) as client:
            workers = [asyncio.create_task(witness.work(client, stop)) for _ in range(4)]
            reports = [await asyncio.to_thread(fsck, url) for _ in range(3)]
            stop.set()
            await asyncio.gather(*workers)
    assert [report["violations_total"] for report in reports] == [0, 0, 0]
    assert reports[0]["tasks"] < reports[2]["tasks"]
