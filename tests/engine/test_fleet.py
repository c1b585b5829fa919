"""The mirror of hosts: whatever is done to it in whatever order, rows stand by name and room adds up."""

import tracemalloc

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.random_fleets import fleets, hosts

from virtflow.engine.columns import busy_share
from virtflow.engine.decide import decide
from virtflow.engine.fleet import Fleet
from virtflow.model.errors import InvalidRequest, InvalidStrategy, NotFound
from virtflow.model.host import Host
from virtflow.model.limits import CUSTOM_DIMENSIONS_MAX
from virtflow.model.plan import Placement
from virtflow.testing.builders import fleet, host, pool, requests, shape


def facts(one: Fleet) -> list[object]:
    return [one.host_at(row) for row in range(len(one))]


def test_rows_stand_in_the_order_of_names_not_of_arrival() -> None:
    made = fleet([host("b"), host("a10"), host("a9"), host("a")])

    assert made.names == ["a", "a10", "a9", "b"]
    assert [made.row(name) for name in ("a", "a10", "a9", "b", "c")] == [0, 1, 2, 3, -1]


@given(fleets(), st.lists(hosts(), max_size=10))
def test_hosts_put_at_once_or_one_by_one_or_twice_make_the_same_fleet(first: list[Host], second: list[Host]) -> None:
    at_once, one_by_one = Fleet(), Fleet()
    at_once.put_hosts([*first, *second])
    for one in [*first, *second]:
        one_by_one.put_host(one)

    assert facts(at_once) == facts(one_by_one)


@given(fleets(min_size=1))
def test_what_is_put_is_what_comes_out(some: list[Host]) -> None:
    made = fleet(some)

    for one in some:
        row = made.host(one.name)
        assert made.host_by_id(one.id) == row
        assert (row.pool, row.zone, row.labels) == (one.spec.pool, one.spec.zone, one.spec.labels)
        assert (row.dedicated, row.schedulable) == (one.spec.dedicated, one.is_in_service)
        assert row.carries_virtflow == one.carries_virtflow
        assert (row.instances, row.free["cpu"]) == (one.instances, one.free["cpu"])
        assert {name: amount for name, amount in row.total.items() if amount} == {
            name: amount for name, amount in one.total.items() if amount
        }


def test_taking_and_giving_back_leaves_no_trace_not_even_in_the_last_bit() -> None:
    made, wanted = fleet([host("a", cores=7, memory_gib=3)]), shape(cores=0.3, memory_gib=0.7)
    before = made.columns.busy.copy()

    for _ in range(3):
        made.take(made.host("a").id, wanted)
    assert made.room("a") == ({"cpu": 900, "memory": 2148, "disk": 0, "gpu": 0, "vms": 3}, 3)
    for _ in range(3):
        made.give(made.host("a").id, wanted)

    assert np.array_equal(made.columns.busy, before)
    assert made.host("a").used == {"cpu": 0, "memory": 0, "disk": 0, "gpu": 0, "vms": 0}


def test_fresh_data_replaces_what_was_believed_to_be_taken() -> None:
    made = fleet([host("a", cores=4)])
    made.take(made.host("a").id, shape(cores=3))

    assert made.set_room("a", {"cpu": 1000}, 1)

    assert (made.host("a").free["cpu"], made.host("a").instances) == (3000, 1)


def test_hosts_that_are_gone_can_neither_take_nor_give_and_harm_nobody() -> None:
    made = fleet([host("a"), host("b")])
    gone = made.host("a").id

    assert made.remove_host("a")
    assert not made.remove_host("a")
    assert not made.give(gone, shape())
    assert not made.take(gone, shape())
    assert not made.set_room("a", {}, 0)
    assert made.room("a") is None
    assert "a" not in made
    assert "b" in made
    with pytest.raises(NotFound):
        made.host("a")
    with pytest.raises(NotFound):
        made.host_by_id(gone)


def test_what_is_done_to_a_fork_is_not_seen_in_the_original() -> None:
    made = fleet([host("a"), host("b", labels={"k": "v"})], pools=[pool("default")])
    before = facts(made)

    fork = made.fork()
    decide(fork, requests(5, shape()))
    fork.remove_host("a")
    fork.put_host(host("c", pool="elsewhere", zone="new", labels={"new": "label"}, custom={"tokens": 3}))
    fork.put_pool(pool("default", accepts_work=False))

    assert facts(made) == before
    assert made.pool("default") == pool("default")
    assert made.pool_names == ("default",)
    assert [one.host for one in decide(made, requests(1, shape())).outcomes] == ["a"]


def test_a_host_that_comes_back_under_another_id_is_found_by_that_one() -> None:
    made = fleet([host("a", id=1), host("b", id=2)])
    assert made.take(1, shape())

    made.put_host(host("a", id=3))

    assert made.host_by_id(3).name == "a"
    assert not made.take(1, shape())


def test_custom_dimensions_appear_on_the_fly_and_are_bounded() -> None:
    made = fleet([host("a"), host("b", custom={"licences": 2})])
    assert made.host("b").free["licences"] == 2
    assert "licences" not in made.host("a").free

    too_many = {f"d{number}": 1 for number in range(CUSTOM_DIMENSIONS_MAX)}
    with pytest.raises(InvalidRequest, match="custom dimensions"):
        made.put_host(host("c", custom=too_many))
    assert len(made) == 2


def test_pools_are_those_put_and_those_that_hosts_name() -> None:
    made = fleet([host("a", pool="named"), host("b", pool="")], pools=[pool("put")])
    assert made.pool_names == ("", "named", "put")

    assert made.remove_pool("put")
    assert not made.remove_pool("put")
    made.remove_host("a")
    assert made.pool_names == ("",)


def test_an_unknown_default_strategy_or_weight_is_refused_at_start() -> None:
    with pytest.raises(InvalidStrategy, match="bestfit") as refused:
        Fleet("bestfit")
    assert "best_fit" in refused.value.remedy
    with pytest.raises(InvalidStrategy, match="no weight"):
        Fleet(weights={"hybrid": {"colour": 1.0}})


def test_an_emptied_fleet_keeps_its_settings_and_nothing_else() -> None:
    made = Fleet("hybrid", weights={"hybrid": {"cpu": 1.0}}, compiled=False)
    made.put_host(host("a"))

    empty = made.emptied()

    assert (len(empty), empty.default_strategy, empty.weights) == (0, "hybrid", {"hybrid": {"cpu": 1.0}})


def test_relabelling_for_ever_does_not_fill_the_memory() -> None:
    made = fleet(3)
    for number in range(500):
        changing = {"seen": str(number)}
        made.put_host(host("bm-001", labels=changing, zone=f"z{number}", pool=f"p{number}"))

    assert made.host("bm-001").labels == {"seen": "499"}
    words = made.columns.vocabulary
    assert max(len(words.label_sets), len(words.zones), len(words.pools)) < 100
    assert isinstance(decide(made, requests(1, shape(labels={"seen": "499"}, pool="p499"))).outcomes[0], Placement)


def test_nothing_of_something_is_not_busy() -> None:
    none, half = np.array([0, 10]), np.array([0, 5])
    assert busy_share(none, half).tolist() == [0.0, 0.5]


def test_ten_thousand_hosts_fit_into_four_hundred_bytes_each() -> None:
    many = [host(f"bm-{number:05}", id=number, labels={"rack": f"r{number // 40}"}) for number in range(10_000)]
    tracemalloc.start()
    made = fleet(many)
    decide(made, requests(50, shape()))
    del many
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert size / len(made) < 400 + 100  # names are held by the specifications as well while this test runs


def test_a_replaced_host_keeps_the_room_that_the_record_says() -> None:
    made = fleet([host("a", cores=4, used={"cpu": 3000}, instances=1)])

    grown = msgspec.structs.replace(host("a", cores=8), used={"cpu": 3000}, instances=1)
    made.put_host(grown)

    assert made.host("a").free["cpu"] == 5000
