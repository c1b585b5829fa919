"""Processes on several machines: all of them leave out the machines of all."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.control.conftest import host, order
from tests.control.test_schedule import create, register, until_placed

from virtflow.control.presence import Presence
from virtflow.main import Service
from virtflow.model.process import Process

Start = Callable[..., AbstractAsyncContextManager[Service]]


def presence(service: Service, *, node: str, kept_s: float = 600.0) -> Presence:
    return Presence(
        Process(id=f"process-on-{node}", node=node, roles=("api",), address="", version="0.1", started_ms=1),
        store=service.store,
        mirror=service.mirror,
        changed=service.scheduler.knock,
        kept_s=kept_s,
    )


@pytest.mark.service("postgresql")
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
class TestSeveralProcesses:
    async def test_the_machines_of_all_are_left_out_by_all(self, start: Start) -> None:
        async with start(node_name="bm-1") as first:
            await register(first, host("bm-1"), host("bm-2"), host("bm-3"))
            async with start(node_name="bm-2.example,10.0.0.9") as second:
                assert [one.node for one in await first.store.processes()] == ["bm-1", "bm-2.example,10.0.0.9"]
                async with asyncio.timeout(20):
                    while not (await first.house.hosts.get("bm-2")).carries_virtflow:
                        await asyncio.sleep(0.05)
                # whoever starts knows at once
                assert (await second.house.hosts.get("bm-1")).carries_virtflow
                views = await create(first, *(order(f"vm-{n}") for n in range(4)))
                assert {(await until_placed(first, view.instance.name)).host for view in views} == {"bm-3"}

    async def test_a_machine_counts_until_its_last_process_has_long_been_silent(self, start: Start) -> None:
        async with start(node_name="none") as service:
            await register(service, host("bm-1"), host("bm-2"))
            await presence(service, node="bm-1").beat()
            assert (await service.house.hosts.get("bm-1")).carries_virtflow
            await create(service, *(order(f"a-{n}") for n in range(3)))
            await presence(service, node="bm-2", kept_s=600.0).beat()
            assert (await service.house.hosts.get("bm-1")).carries_virtflow  # it may only be starting again
            await create(service, order("waits"))
            assert (await service.house.vms.get("waits")).explanation.code == "only_self_hosts"
            await presence(service, node="bm-2", kept_s=0.0).beat()  # and now nobody was heard of for long enough
            assert (await until_placed(service, "waits")).host == "bm-1"

    async def test_simulated_hosts_and_processes_on_no_host_leave_nothing_out(self, start: Start) -> None:
        async with start(node_name="none") as service:
            await register(service, host("none"))
            assert not (await service.house.hosts.get("none")).carries_virtflow


async def test_the_embedded_database_has_one_process(start: Start, url: str) -> None:
    if url.startswith("sqlite"):
        async with start(node_name="bm-1") as service:
            assert await service.store.processes() == []
            await register(service, host("bm-1"))
            assert (await service.house.hosts.get("bm-1")).carries_virtflow
