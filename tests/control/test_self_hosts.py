"""Hosts that carry virtflow itself are never candidates: by name, by label, or because a process of it runs there."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.control.conftest import host, order, wish
from tests.control.test_schedule import create, register, until_placed

from virtflow.control.self_hosts import SelfHosts, names_of_machines
from virtflow.engine.verify import verify_plan
from virtflow.main import Service
from virtflow.main.parts import node_of
from virtflow.model.plan import Placement, Plan, Request
from virtflow.store.contract import HostFilter

Start = Callable[..., AbstractAsyncContextManager[Service]]


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ([""], set()),
        (["none"], set()),
        (["localhost"], set()),
        (["BM-1"], {"bm-1"}),
        (["bm-1.rack-2.example"], {"bm-1.rack-2.example", "bm-1"}),
        (["bm-1, 10.0.0.7,fd00::7"], {"bm-1", "10.0.0.7", "fd00::7"}),
        (["bm-1", "bm-2"], {"bm-1", "bm-2"}),
    ],
)
def test_a_machine_is_known_by_names_and_addresses(said: list[str], names: set[str]) -> None:
    assert names_of_machines(said) == names


@pytest.mark.parametrize(
    ("rule", "name", "address", "labels", "carries"),
    [
        (SelfHosts(), "bm-1", "10.0.0.1", {"a": "b"}, False),
        (SelfHosts(names={"bm-1"}), "bm-1", "", {}, True),
        (SelfHosts(names={"bm-1"}), "bm-10", "", {}, False),
        (SelfHosts(label="role=seed"), "bm-1", "", {"role": "seed", "x": "y"}, True),
        (SelfHosts(label="role=seed"), "bm-1", "", {"role": "seeds"}, False),
        (SelfHosts(label="role=seed"), "bm-1", "", {}, False),
        (SelfHosts(here=["bm-1.example"]), "bm-1", "", {}, True),
        (SelfHosts(here=["10.0.0.1"]), "bm-1", "10.0.0.1", {}, True),
        (SelfHosts(here=["node-1"]), "bm-1", "Node-1", {}, True),
        (SelfHosts(here=["10.0.0.1"]), "bm-1", "10.0.0.10", {}, False),
        (SelfHosts(here=["node-1"]), "bm-1", "", {}, False),
    ],
)
def test_who_carries_virtflow(rule: SelfHosts, name: str, address: str, labels: dict[str, str], carries: bool) -> None:
    assert rule.carries(name, address, labels) is carries


def test_where_others_run_is_added_to_where_we_run() -> None:
    rule = SelfHosts(here=["bm-1"])

    assert rule.see(["bm-2"])
    assert not rule.see(["bm-2", "bm-1"])
    assert [rule.carries(name, "", {}) for name in ("bm-1", "bm-2", "bm-3")] == [True, True, False]
    assert rule.see([])
    assert not rule.carries("bm-2", "", {})


@pytest.mark.parametrize("setting", [{"self_hosts": "bm-1"}, {"self_label": "role=seed"}, {"node_name": "bm-1"}])
async def test_only_self_hosts_left_is_a_refusal_that_names_the_settings(start: Start, setting: dict[str, str]) -> None:
    async with start(**setting) as service:
        await register(service, host("bm-1", labels={"role": "seed"}))
        await create(service, order("waits"))

        waiting = await service.house.vms.get("waits")

        assert waiting.instance.host is None
        assert waiting.explanation.code == "only_self_hosts"
        assert "self_hosts, self_label and node_name" in waiting.explanation.text
        assert [change.code for change in waiting.explanation.changes] == ["release_self_hosts"]
        assert [(one.filter, one.hosts) for one in waiting.explanation.filters] == [("not_self", 1)]
        assert (await service.house.placements.capacity(wish())).total.now == 0
        preview = await service.house.placements.explain(wish(), runners_up=3)
        assert preview.winner is None
        await register(service, host("bm-2"))
        assert (await until_placed(service, "waits")).host == "bm-2"


async def test_what_is_on_a_host_stays_when_it_becomes_one_of_ours(start: Start) -> None:
    async with start() as service:
        await register(service, host("bm-1"))
        await create(service, order("old"))
    async with start(self_hosts="bm-1") as service:
        assert (await service.house.vms.get("old")).instance.host == "bm-1"
        row = await service.house.hosts.get("bm-1")
        assert (row.carries_virtflow, row.is_schedulable, row.cordoned) == (True, False, False)
        await create(service, order("new"))
        assert (await service.house.vms.get("new")).instance.host is None
    async with start() as service:  # the setting is gone, and so is what followed from it
        assert (await until_placed(service, "new")).host == "bm-1"


async def test_a_process_that_moves_frees_the_host_it_left(start: Start) -> None:
    async with start() as service:
        await register(service, host("bm-1"), host("bm-2"))
        mirror = service.mirror

        assert mirror.see_machines(["bm-1"])
        await create(service, *(order(f"a-{n}") for n in range(3)))
        assert mirror.see_machines(["bm-2.example"])
        await create(service, *(order(f"b-{n}") for n in range(3)))

        hosts = [(await service.house.vms.get(name)).instance.host for name in ("a-0", "a-2", "b-0", "b-2")]
        assert hosts == ["bm-2", "bm-2", "bm-1", "bm-1"]
        assert not mirror.see_machines(["bm-2"])  # the same machine by a shorter name
        listed = {
            row.name: row.carries_virtflow for row in await service.house.hosts.list(HostFilter(), after="", limit=9)
        }
        assert listed == {"bm-1": False, "bm-2": True}


async def test_every_answer_about_a_host_shows_it(start: Start) -> None:
    async with start(self_label="role=seed") as service:
        await register(service, host("bm-1"))
        assert not (await service.house.hosts.get("bm-1")).carries_virtflow
        seed, _ = await service.house.hosts.replace(
            host("bm-1", labels={"role": "seed"}), expected_version=None, actor="test"
        )
        assert seed.carries_virtflow
        cordoned = await service.house.hosts.cordon("bm-1", cordoned=True, expected_version=None, actor="test")
        assert cordoned.carries_virtflow
        [pool] = (await service.house.summary.fleet()).pools
        assert (pool.hosts, pool.schedulable, pool.self_hosts) == (1, 0, 1)
        assert b'virtflow_hosts{pool="default",state="self"} 1.0' in await service.house.metrics.text()


async def test_the_second_opinion_knows_it_too(start: Start) -> None:
    async with start(self_hosts="bm-1") as service:
        await register(service, host("bm-1"))
        row = await service.house.hosts.get("bm-1")
        request = Request(b"r" * 16, wish())
        plan = Plan(outcomes=(Placement(request, row.id, "bm-1", 0.0),))
        assert [one.code for one in verify_plan([row], plan)] == ["on_self_host"]


async def test_simulated_hosts_are_no_machines(start: Start) -> None:
    async with start(simulate="3") as service:
        assert node_of(service.config) == ""
    async with start() as service:
        assert node_of(service.config) != ""
