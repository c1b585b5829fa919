"""Several real processes on one database can be started, stopped, killed and asked."""

import asyncio
from pathlib import Path

import httpx
import pytest

from virtflow.testing.cluster import cluster, wait_until
from virtflow.testing.witness import register_hosts

pytestmark = [pytest.mark.service("postgresql"), pytest.mark.slow, pytest.mark.xdist_group("cluster")]


async def test_processes_share_a_database_and_the_one_that_schedules_leads(
    tmp_path: Path, new_postgresql_url: str
) -> None:
    def told() -> None:
        with cluster(tmp_path, database_url=new_postgresql_url) as them:
            api, one = them.add("api", role="api"), them.add("one", role="scheduler")
            them.start()
            assert them.urls == [api.url, one.url]
            assert them.wait_for_leader() is one
            register_hosts(api.url, hosts=1, cores=4)
            httpx.post(f"{api.url}/v1/vms", json={"resources": {"cpu": 1000}, "name": "web"}).raise_for_status()
            wait_until(lambda: httpx.get(f"{api.url}/v1/vms/web").json()["host"] == "bm-000")
            one.stop()
            assert one.is_alive()
            assert not one.is_ready()
            one.cont()
            one.wait_until_ready()
            one.kill()
            assert not one.is_alive()
            one.restart()
            assert one.starts == 2
            assert them.wait_for_leader() is one
            assert one.terminate() == 0
            assert "leader.began" in one.log_text()
            assert api.is_ready()

    await asyncio.to_thread(told)


async def test_a_process_that_does_not_start_is_shown_with_its_log(tmp_path: Path) -> None:
    def told() -> None:
        with cluster(tmp_path, database_url="postgresql://nobody@127.0.0.1:1/none") as them:
            one = them.add("one")
            with pytest.raises(AssertionError, match="VIRTFLOW_DATABASE_URL"):
                them.start()
            assert one.wait_until_gone() != 0

    await asyncio.to_thread(told)
