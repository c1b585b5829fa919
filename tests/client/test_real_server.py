"""Every call of the client against the real server."""

import itertools
from collections.abc import Iterator

import pytest
from tests.client.servers import real_server

from virtflow.client import ApiError, Client


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with real_server(hosts=10) as address, Client(address) as client:
        yield client


def host(name: str, pool: str) -> dict[str, object]:
    return {"name": name, "pool": pool, "capacity": {"cpu": 8000, "memory": 16384, "licences": 2}, "zone": "here"}


def order(name: str, pool: str, cpu: int = 1000) -> dict[str, object]:
    return {"name": name, "pool": pool, "resources": {"cpu": cpu}}


def test_hosts_are_created_read_changed_and_deleted(client: Client) -> None:
    created = client.hosts.create(host("h-1", "p-hosts"))
    assert created.free["cpu"] == 8000
    assert created.created_at is not None
    assert client.hosts.change("h-1", {"rack": "r1"}, version=created.version).rack == "r1"
    with pytest.raises(ApiError) as stale:
        client.hosts.change("h-1", {"rack": "r2"}, version=created.version)
    assert stale.value.current_version == created.version + 1
    assert client.hosts.replace("h-1", host("h-1", "p-hosts")).rack == ""
    assert client.hosts.cordon("h-1").cordoned
    assert [each.name for each in client.hosts.list(pool="p-hosts", cordoned=True, zone="here")] == ["h-1"]
    assert not client.hosts.uncordon("h-1").cordoned
    assert client.hosts.create_many([host("h-2", "p-hosts"), host("h-3", "p-hosts")]) == 2
    assert [each.name for each in client.hosts.list(pool="p-hosts", limit=2)] == ["h-1", "h-2"]
    client.hosts.delete("h-1")
    with pytest.raises(ApiError) as gone:
        client.hosts.get("h-1")
    assert gone.value.status == 404


def test_vms_are_placed_wait_and_are_deleted(client: Client) -> None:
    client.hosts.create(host("v-1", "p-vms"))
    vm = client.vms.create(order("one", "p-vms"))
    assert (vm.host, vm.is_placed) == ("v-1", True)
    waiting = client.vms.create(order("two", "p-vms", cpu=7500))
    assert waiting.is_waiting
    explanation = client.vms.get("two").explanation
    assert explanation is not None
    assert explanation.nearest is not None
    assert explanation.nearest.host == "v-1"
    many = client.vms.create_many([order(f"m-{number}", "p-vms") for number in range(3)])
    assert [each.host for each in many] == ["v-1"] * 3
    assert {each.name for each in client.vms.list(pool="p-vms", placed=False)} == {"two"}
    assert len(list(client.vms.list(host="v-1", status="pending"))) == 4
    client.vms.delete("two")
    assert client.vms.delete_many(["m-0", "m-1", "nobody"]).absent == ("nobody",)


def test_tasks_tell_what_became_of_a_request(client: Client) -> None:
    client.hosts.create(host("t-1", "p-tasks"))
    waiting = client.vms.create(order("wait", "p-tasks", cpu=9000))
    task = client.tasks.get(waiting.task_id)
    assert (task.state, task.vm, task.is_over) == ("queued", "wait", False)
    assert waiting.task_id in {each.task_id for each in client.tasks.list(states=["queued", "processing"])}
    assert client.tasks.cancel(waiting.task_id).state == "cancelled"
    assert client.tasks.get(waiting.task_id).history[-1].state == "cancelled"


def test_decisions_without_writing(client: Client) -> None:
    client.hosts.create(host("d-1", "p-decide"))
    preview = client.placements.explain(order("x", "p-decide"))
    assert preview.winner is not None
    assert preview.winner.host == "d-1"
    previews = client.placements.explain_many([order(f"x-{n}", "p-decide", cpu=5000) for n in range(2)])
    assert [each.placeable for each in previews.items] == [True, False]
    capacity = client.capacity({"cpu": 1000, "licences": 1}, pool="p-decide", zone="here", dedicated="allowed")
    assert (capacity.total, capacity.total_after_loss) == (2, 0)


def test_pools_have_settings(client: Client) -> None:
    assert client.pools.replace("p-set", {"overcommit": {"cpu": 2.0}, "strategy": "best_fit"}).explicit
    assert client.pools.get("p-set").effective_strategy == "best_fit"
    assert "p-set" in {pool.name for pool in client.pools.list()}
    client.pools.delete("p-set")
    assert client.pools.replace("", {"accepts_work": False}).name == ""


def test_the_installation_tells_of_itself(client: Client) -> None:
    assert client.is_ready()
    assert {"least_loaded", "best_fit"} <= {each.name for each in client.strategies()}
    assert client.info().strategy == "least_loaded"
    fleet = client.fleet()
    assert sum(pool.hosts for pool in fleet.pools) >= 10
    assert fleet.inventory[0].state == "fresh"


def test_events_are_read_and_followed(client: Client) -> None:
    before = client.events.range().newest
    client.hosts.create(host("e-1", "p-events"))
    following = client.events.follow(after=before, types=["host."])
    seen = next(following)
    assert (seen.type, seen.id, seen.seq) == ("host.registered", "e-1", before + 1)
    client.hosts.cordon("e-1")
    assert next(following).type == "host.cordoned"
    following.close()
    types = [event.type for event in client.events.list(after=before, kind="host", id="e-1")]
    assert types == ["host.registered", "host.cordoned"]
    assert len(list(itertools.islice(client.events.list(after=0, limit=3), 5))) == 3
