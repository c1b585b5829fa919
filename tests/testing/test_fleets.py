"""Simulated fleets are the same everywhere, and worth looking at."""

import hashlib

import msgspec

from virtflow.inventory.records import read_any
from virtflow.model.host import Source
from virtflow.testing.fleets import SimulatedInventory, simulated_fleet, simulated_orders


def digest(of: object) -> str:
    return hashlib.sha256(msgspec.json.encode(of)).hexdigest()[:16]


def test_the_same_numbers_give_the_same_fleet_and_another_seed_another_one() -> None:
    assert simulated_fleet(60, 1) == simulated_fleet(60, 1)
    assert simulated_fleet(60, 1) != simulated_fleet(60, 2)


def test_a_fleet_grows_without_changing_its_hosts() -> None:
    assert simulated_fleet(500)[:60] == simulated_fleet(60)


def test_the_default_fleet_has_what_a_demonstration_needs() -> None:
    fleet = simulated_fleet()
    assert len(fleet) == 60
    assert {host.pool for host in fleet} == {"general", "ai", "storage"}
    assert {host.zone for host in fleet} == {"z1", "z2", "z3"}
    assert {host.labels.get("gpu") for host in fleet if host.pool == "ai"} == {"a100", "l40s"}
    assert any(host.dedicated and host.pool == "ai" and host.capacity["cpu"] >= 8000 for host in fleet)
    assert any(not host.dedicated for host in fleet if host.pool == "ai")
    assert (fleet[0].name, fleet[0].address) == ("bm-001", "10.0.0.1")


def test_every_simulated_host_is_one_that_an_inventory_may_list() -> None:
    for host in simulated_fleet(60):
        assert read_any(msgspec.to_builtins(host)).spec == host


def test_names_and_addresses_of_a_large_fleet_are_unique() -> None:
    fleet = simulated_fleet(70_000)
    assert len({host.name for host in fleet}) == len({host.address for host in fleet}) == 70_000
    assert not any(host.address.endswith((".0", ".255")) for host in fleet)


def test_orders_are_the_same_everywhere_and_independent_of_each_other() -> None:
    orders = simulated_orders(1000)
    assert orders == simulated_orders(1000)
    assert len({order["name"] for order in orders}) == 1000
    assert {order["pool"] for order in orders} == {"general", "ai", "storage"}
    assert len({id(order["resources"]) for order in orders}) == 1000


def test_orders_ask_for_no_more_than_the_fleet_of_half_their_number_has() -> None:
    fleet, orders = simulated_fleet(60), simulated_orders(240)
    for pool in ("general", "ai", "storage"):
        for name in ("cpu", "memory", "gpu"):
            room = sum(host.capacity.get(name, 0) for host in fleet if host.pool == pool)
            wanted = sum(order["resources"].get(name, 0) for order in orders if order["pool"] == pool)  # type: ignore[attr-defined]
            assert wanted <= 0.7 * room


async def test_the_simulated_inventory_says_that_it_is_one() -> None:
    inventory = SimulatedInventory(12, seed=3)
    assert inventory.source is Source.SIMULATED
    assert [found.spec for found in (await inventory.fetch()).hosts] == simulated_fleet(12, 3)
