"""A record is read, or skipped with a sentence; the others never suffer from it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtflow.inventory import Fetched, FoundHost
from virtflow.inventory.contract import SKIPPED_NAMED_MAX
from virtflow.inventory.records import HOST_FIELDS, NODE_FIELDS, is_address, read_any, read_node, read_records
from virtflow.model.host import HostSpec
from virtflow.model.limits import AMOUNT_MAX
from virtflow.model.names import is_name

GOOD = {"name": "bm-ok", "cpu": 4, "memory": 1024, "pool": "default"}


def nodes(*records: Any) -> Fetched:
    return read_records(records, read=read_node)


def hosts(*records: Any) -> Fetched:
    return read_records(records, read=read_any)


def problem_of(record: Any, read: Any = read_node) -> str:
    """Why it is skipped; the good record beside it stays."""
    fetched = read_records([record, GOOD], read=read)
    assert [found.spec.name for found in fetched.hosts] == ["bm-ok"]
    assert fetched.skipped_total == 1
    return fetched.skipped[0].problem


# Nodes.


def test_a_whole_node_becomes_a_host_in_our_units() -> None:
    [found] = nodes(
        {
            "name": "bm01",
            "cpu": 16,
            "memory": 32768,
            "storage": 1000,
            "usage_cpu": 0.3,
            "usage_mem": 0.4,
            "pool": "default",
            "dedicated": False,
            "model": "HPE ProLiant DL360 Gen10",
            "max_vms": 20,
            "current_vms": 5,
        }
    ).hosts
    assert found == FoundHost(
        spec=HostSpec(
            name="bm01",
            pool="default",
            capacity={"cpu": 16_000, "memory": 32_768, "disk": 1000, "vms": 20},
            model="HPE ProLiant DL360 Gen10",
        ),
        reported={"cpu": 4800, "memory": 13_108, "vms": 5},
    )


def test_what_a_node_does_not_say_has_the_old_defaults() -> None:
    [found] = nodes({"name": "bm01", "pool": "", "dedicated": True, "model": ""}).hosts
    assert found.spec == HostSpec(name="bm01", pool="", dedicated=True, capacity={"vms": 1})
    assert found.reported == {}


def test_a_null_says_nothing() -> None:
    nothing = {
        "cpu": None,
        "usage_cpu": None,
        "model": None,
        "labels": None,
        "ip": None,
        "dedicated": None,
        "pool": None,
    }
    assert nodes({"name": "a", **nothing}) == nodes({"name": "a"})


def test_what_a_node_may_say_besides() -> None:
    [found] = nodes(
        {"name": "a", "ip": "10.0.0.1", "labels": {"gpu": "a100"}, "zone": "z1", "rack": "r1", "gpu": 4, "uuid": [1]}
    ).hosts
    assert found.spec.address == "10.0.0.1"
    assert (found.spec.zone, found.spec.rack, found.spec.labels) == ("z1", "r1", {"gpu": "a100"})
    assert found.spec.capacity["gpu"] == 4


def test_use_is_rounded_up_and_not_by_the_noise_of_binary_fractions() -> None:
    [found] = nodes({"name": "a", "cpu": 10, "memory": 1000, "usage_cpu": 0.1, "usage_mem": 0.0001}).hosts
    assert found.reported == {"cpu": 1000, "memory": 1}


def test_a_node_that_takes_no_vms_has_a_quota_of_none() -> None:
    [found] = nodes({"name": "a", "max_vms": 0, "current_vms": 3}).hosts
    assert found.spec.capacity["vms"] == 0


def test_whole_floats_are_whole_numbers() -> None:
    [found] = nodes({"name": "a", "cpu": 4.0, "memory": 1e3}).hosts
    assert found.spec.capacity == {"cpu": 4000, "memory": 1000, "vms": 1}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"cpu": "4"}, "cpu is '4'; it must be a whole number from 0"),
        ({"cpu": 4.5}, "cpu is 4.5"),
        ({"cpu": True}, "cpu is true"),
        ({"cpu": -1}, "cpu is -1"),
        ({"cpu": float("nan")}, "cpu is nan"),
        ({"memory": float("inf")}, "memory is inf"),
        ({"memory": 10**400}, "memory is too large"),
        ({"storage": AMOUNT_MAX + 1}, "storage is too large"),
        ({"usage_cpu": float("nan")}, "usage_cpu is nan; it must be a share from 0 to 1"),
        ({"usage_mem": 35}, "(0.35 means 35 %)"),
        ({"usage_mem": "0.5"}, "usage_mem is '0.5'"),
        ({"usage_cpu": 10**400}, "usage_cpu is too large"),
        ({"dedicated": "yes"}, "dedicated is 'yes'; it must be true or false"),
        ({"dedicated": 1}, "dedicated is 1"),
        ({"model": 7}, "model is 7; it must be text"),
        ({"model": "a\x1b[31m"}, "printable"),
        ({"model": "\ud800"}, "printable"),
        ({"model": "x" * 300}, "at most 253"),
        ({"pool": "GPU Pool"}, "name it gpu-pool in the inventory"),
        ({"pool": 3}, "its pool 3 is no pool name"),
        ({"ip": "10.0.0.256"}, "ip is '10.0.0.256'"),
        ({"ip": "10.0.0.1", "address": "10.0.0.2"}, "differ"),
        ({"labels": ["gpu"]}, "labels is a list"),
        ({"labels": {"gpu": True}}, "the label gpu is true"),
        ({"labels": {"": "x"}}, "the label ''"),
        ({"labels": {str(n): "" for n in range(65)}}, "at most 64"),
        ({"name": "BM_01"}, "name it bm-01 in the inventory"),
        ({"name": "bm-1.example.org"}, "name it bm-1-example-org in the inventory"),
        ({"name": "-"}, "is no host name"),
        ({"name": ""}, "is no host name"),
        ({"name": 7}, "its name 7"),
        ({"name": None}, "it has no name"),
        ({"name": "x" * 64}, "is no host name"),
        ({"name": "bm\u00fc"}, "is no host name"),
    ],
)
def test_a_wrong_node_is_skipped_with_what_is_wrong(wrong: dict[str, Any], says: str) -> None:
    assert says in problem_of({"name": "bm-bad", **wrong})


@pytest.mark.parametrize("record", [None, 7, "bm01", [], ["bm01"], {}, [[]]])
def test_what_is_no_record_is_skipped(record: Any) -> None:
    assert problem_of(record)


def test_of_two_records_with_one_name_the_first_counts() -> None:
    fetched = nodes({"name": "a", "cpu": 1}, {"name": "a", "cpu": 2}, {"name": "b"})
    assert [(found.spec.name, found.spec.capacity.get("cpu")) for found in fetched.hosts] == [("a", 1000), ("b", None)]
    assert fetched.skipped[0].record == "#1 a"


def test_skipped_records_are_all_counted_and_the_first_ones_named() -> None:
    fetched = nodes(*[{"name": "BAD"}] * 500, GOOD)
    assert fetched.skipped_total == 500
    assert len(fetched.skipped) == SKIPPED_NAMED_MAX
    assert len(fetched.hosts) == 1


def test_a_skipped_record_is_named_in_one_short_line() -> None:
    [skipped] = nodes({"name": "x\n" * 10_000}).skipped
    assert len(skipped.record) < 100
    assert skipped.record.isprintable()
    assert "\n" not in skipped.problem


# Our own descriptions.


def test_our_own_description_is_taken_as_it_is() -> None:
    record = {
        "name": "bm-1",
        "pool": "ai",
        "address": "bm-1.example.org",
        "capacity": {"cpu": 64_000, "memory": 1000, "licences": 3},
        "overcommit": {"cpu": 4, "memory": 1.5},
        "reserved": {"cpu": 500},
        "labels": {"example.com/gpu": "a100"},
        "zone": "z1",
        "rack": "r1",
        "model": "x",
        "dedicated": True,
        "max_vms": 20,
    }
    [found] = hosts(record).hosts
    quota = {"capacity": {**record["capacity"], "vms": 20}, "overcommit": {"cpu": 4.0, "memory": 1.5}}
    assert found == FoundHost(HostSpec(**{**{k: v for k, v in record.items() if k != "max_vms"}, **quota}))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"capacity": {"cpu": 1}, "memory": 5}, "it mixes 'capacity' of a host with 'memory' of a node"),
        ({"capacity": {"cpu": 1}, "adress": "x"}, "unknown field 'adress'; did you mean address?"),
        ({"capacity": [1]}, "capacity is a list"),
        ({"capacity": {"CPU": 1}}, "capacity names 'CPU'"),
        ({"capacity": {"cpu": 1.5}}, "cpu is 1.5"),
        ({"capacity": {f"r{n}": 1 for n in range(9)}}, "more than 8"),
        ({"capacity": {"vms": 3}, "max_vms": 4}, "max_vms is 4, capacity.vms is 3"),
        ({"capacity": {}, "overcommit": {"cpu": 0}}, "overcommit.cpu is 0; it must be from 0.01 to 100"),
        ({"capacity": {}, "overcommit": {"cpu": float("nan")}}, "overcommit.cpu is nan"),
        ({"capacity": {}, "overcommit": {"cpu": True}}, "overcommit.cpu is true"),
        ({"capacity": {}, "zone": False}, "zone is false; it must be text (in YAML: put it in quotes)"),
    ],
)
def test_a_wrong_description_is_skipped_with_what_is_wrong(wrong: dict[str, Any], says: str) -> None:
    assert says in problem_of({"name": "bm-bad", **wrong}, read=read_any)


def test_both_kinds_of_record_may_stand_in_one_list() -> None:
    fetched = hosts({"name": "a", "cpu": 2, "whatever": 1}, {"name": "b", "capacity": {"cpu": 2000, "vms": 1}})
    assert [found.spec.capacity for found in fetched.hosts] == [{"cpu": 2000, "vms": 1}] * 2


@pytest.mark.parametrize("text", ["10.0.0.1", "fd00::1", "bm-1", "bm-1.example.org", "bm_1.example.org."])
def test_addresses_are_ip_addresses_or_host_names(text: str) -> None:
    assert is_address(text)


@pytest.mark.parametrize("text", ["10.0.0", "300.1.1.1", "a b", "http://bm-1", "-a", "a..b", "10.0.0.1:80", "a\n"])
def test_what_is_no_address_is_known(text: str) -> None:
    assert not is_address(text)


# Junk.

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**400, max_value=10**401),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["a", "bm-1", "10.0.0.1", "\ud800", "\x00"]),
)
junk = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
records = st.dictionaries(st.sampled_from(sorted(NODE_FIELDS | HOST_FIELDS)) | st.text(max_size=3), junk, max_size=6)


@given(st.lists(junk | records, max_size=6))
def test_junk_never_raises_and_never_becomes_an_impossible_host(junk_records: list[Any]) -> None:
    fetched = hosts(*junk_records)
    assert len(fetched.hosts) + fetched.skipped_total == len(junk_records)
    for found in fetched.hosts:
        assert is_name(found.spec.name)
        assert found.spec.pool == "" or is_name(found.spec.pool)
        assert all(0 <= amount <= AMOUNT_MAX for amount in {**found.spec.capacity, **found.reported}.values())
    json.dumps([skipped.problem for skipped in fetched.skipped]).encode()
    assert all(skipped.problem.encode() and skipped.record.encode() for skipped in fetched.skipped)
