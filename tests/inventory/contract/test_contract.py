"""What every inventory promises, asked of each of them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.inventory.servers import answering, server

from virtflow.inventory import Fetched, Inventory
from virtflow.inventory.file import FileInventory
from virtflow.inventory.http import HttpInventory
from virtflow.model.errors import Unavailable
from virtflow.testing.fleets import SimulatedInventory
from virtflow.testing.node_api import NodeApi

GOOD = {"name": "bm-1", "pool": "ai", "cpu": 4, "memory": 1024, "max_vms": 3, "usage_cpu": 0.5}
#: Opens an inventory that lists these records; text instead of a list is sent as it is.
Open = Callable[[Any], contextlib.AbstractAsyncContextManager[Inventory]]


@pytest.fixture(params=["http", "file"])
def listing(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    @asynccontextmanager
    async def over_http(content: Any) -> AsyncIterator[Inventory]:
        body = content.encode() if isinstance(content, str) else content
        async with server(answering(body)) as url, HttpInventory(url) as inventory:
            yield inventory

    @asynccontextmanager
    async def in_a_file(content: Any) -> AsyncIterator[Inventory]:
        path = tmp_path / "hosts.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        yield FileInventory(path)

    return over_http if request.param == "http" else in_a_file


def names(fetched: Fetched) -> list[str]:
    return [found.spec.name for found in fetched.hosts]


async def test_it_lists_hosts_in_our_units_with_the_use_reported(listing: Open) -> None:
    async with listing([GOOD]) as inventory:
        [found] = (await inventory.fetch()).hosts
    assert found.spec.pool == "ai"
    assert found.spec.capacity == {"cpu": 4000, "memory": 1024, "vms": 3}
    assert found.reported == {"cpu": 2000}


async def test_the_same_answer_is_the_same_each_time(listing: Open) -> None:
    async with listing([GOOD, {"name": "bm-2", "cpu": 1}]) as inventory:
        assert await inventory.fetch() == await inventory.fetch()


@pytest.mark.parametrize("envelope", ["nodes", "items"])
async def test_the_list_may_stand_in_an_envelope(listing: Open, envelope: str) -> None:
    async with listing({envelope: [GOOD]}) as inventory:
        assert names(await inventory.fetch()) == ["bm-1"]


async def test_a_bad_record_costs_no_other_one(listing: Open) -> None:
    """Once, one invalid record ended the refreshing for ever."""
    async with listing([{"name": "BAD"}, GOOD, {"name": "bm-1", "cpu": 9}, 7]) as inventory:
        fetched = await inventory.fetch()
    assert names(fetched) == ["bm-1"]
    assert fetched.skipped_total == 3
    assert [skipped.record for skipped in fetched.skipped] == ["#0 BAD", "#2 bm-1", "#3"]


async def test_a_nan_spoils_its_record_alone(listing: Open) -> None:
    async with listing('[{"name": "bm-bad", "usage_cpu": NaN}, {"name": "bm-1", "cpu": 1}]') as inventory:
        fetched = await inventory.fetch()
    assert names(fetched) == ["bm-1"]
    assert "usage_cpu is nan" in fetched.skipped[0].problem


async def test_an_empty_list_is_an_answer(listing: Open) -> None:
    async with listing([]) as inventory:
        assert await inventory.fetch() == Fetched()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "  \n",
        '[{"name": "bm-1", ',
        "[" * 100_000,
        '{"a":' * 100_000,
        "<html>404</html>",
        "null",
        '"bm-1"',
        "7",
        "{}]",
        '[{"name": "bm-1", "cpu": 1' + "0" * 5000,
    ],
    ids=lambda content: content[:12],
)
async def test_what_is_no_whole_answer_is_unavailable(listing: Open, content: str) -> None:
    async with listing(content) as inventory:
        with pytest.raises(Unavailable) as caught:
            await inventory.fetch()
    assert inventory.location in caught.value.detail
    assert len(caught.value.detail) < 500


async def test_a_number_beyond_all_bounds_spoils_its_record_alone(listing: Open) -> None:
    async with listing('[{"name": "bm-bad", "cpu": 1' + "0" * 5000 + '}, {"name": "bm-1", "cpu": 1}]') as inventory:
        assert names(await inventory.fetch()) == ["bm-1"]


async def test_half_an_answer_names_the_place(listing: Open) -> None:
    async with listing('[{"name": "bm-1"},\n{"name": ') as inventory:
        with pytest.raises(Unavailable, match="line 2, column"):
            await inventory.fetch()


async def test_following_its_changes_can_be_ended_at_any_time(listing: Open) -> None:
    async with listing([GOOD]) as inventory:
        await inventory.fetch()

        async def follow() -> None:
            async for _ in inventory.changes():
                pass

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.05)
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(following, 5)


async def test_the_simulated_inventory_keeps_the_contract_too() -> None:
    inventory: Inventory = SimulatedInventory(10)
    assert names(await inventory.fetch())[:2] == ["bm-001", "bm-002"]
    assert [knock async for knock in inventory.changes()] == []


async def test_the_mock_node_api_is_understood_whole() -> None:
    from virtflow.testing.node_api import EXAMPLE_NODES, simulated_nodes

    for nodes in (EXAMPLE_NODES, simulated_nodes(60)):
        async with await NodeApi(nodes).start(port=0) as listening:
            port = listening.sockets[0].getsockname()[1]
            async with HttpInventory(f"http://127.0.0.1:{port}/nodes") as inventory:
                fetched = await inventory.fetch()
        assert len(fetched.hosts) == len(nodes)
        assert fetched.skipped_total == 0


def test_aclosing_works_on_the_changes_of_a_file(tmp_path: Path) -> None:
    """A follower that breaks off leaves no watch behind."""
    path = tmp_path / "hosts.json"
    path.write_text("[]")

    async def once() -> None:
        inventory = FileInventory(path, look_s=0.05)
        await inventory.fetch()
        path.write_text("[ ]")
        async with aclosing(inventory.changes()) as changes:  # type: ignore[type-var]
            await asyncio.wait_for(anext(changes), 5)

    asyncio.run(once())
