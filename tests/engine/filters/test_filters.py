"""Each filter alone: which of a few hosts pass."""

import pytest

from virtflow.engine import filters
from virtflow.model.host import Host
from virtflow.model.shape import Dedicated, Shape
from virtflow.testing.builders import fleet, host, pool, shape

A, B = host("a"), host("b")
BOTH = {"x": "1", "y": "2"}
TABLE = [
    ("in_pool", [host("a", pool="p"), host("b", pool="q")], shape(pool="p"), "a"),
    ("in_pool", [host("a", pool="p"), host("b", pool="")], shape(pool=""), "b"),
    ("in_pool", [A, B], shape(pool="nowhere"), ""),
    ("schedulable", [A, host("b", cordoned=True), host("c", missing=True)], shape(), "a"),
    ("not_self", [A, host("b", carries_virtflow=True)], shape(), "a"),
    ("not_self", [host("a", carries_virtflow=True)], shape(), ""),
    ("dedicated", [A, host("b", dedicated=True)], shape(dedicated=Dedicated.REQUIRED), "b"),
    ("dedicated", [A, host("b", dedicated=True)], shape(dedicated=Dedicated.FORBIDDEN), "a"),
    ("dedicated", [A, host("b", dedicated=True)], shape(dedicated=Dedicated.ALLOWED), "ab"),
    ("labels", [A, host("b", labels={"gpu": "a100", "x": "y"})], shape(labels={"gpu": "a100"}), "b"),
    ("labels", [A, host("b", labels={"gpu": "h100"})], shape(labels={"gpu": "a100"}), ""),
    ("labels", [host("a", labels={"x": "1"}), host("b", labels=BOTH)], shape(labels=BOTH), "b"),
    ("labels", [A, B], shape(), "ab"),
    ("zone", [host("a", zone="z"), B], shape(zone="z"), "a"),
    ("zone", [host("a", zone="z"), B], shape(), "ab"),
    ("zone", [A, B], shape(zone="nowhere"), ""),
    ("enough_room", [host("a", cores=2), host("b", cores=1)], shape(cores=2), "a"),
    ("enough_room", [host("a", cores=2, used={"cpu": 1}), host("b", cores=2)], shape(cores=2), "b"),
    ("enough_room", [host("a", gpus=1), B], shape(gpus=1), "a"),
    ("enough_room", [host("a", custom={"tokens": 1}), B], shape(custom={"tokens": 1}), "a"),
    ("enough_room", [A, B], shape(custom={"unheard-of": 1}), ""),
]


def passing(name: str, hosts: list[Host], wanted: Shape) -> str:
    made = fleet(hosts)
    one = next(one for one in filters.ALL if one.name == name)
    mask = one.passes(made.columns, wanted)
    return "".join(host_name for host_name, passes in zip(made.names, mask.tolist(), strict=True) if passes)


@pytest.mark.parametrize(("name", "hosts", "wanted", "expected"), TABLE)
def test_who_passes(name: str, hosts: list[Host], wanted: Shape, expected: str) -> None:
    assert passing(name, hosts, wanted) == expected


def test_pools_that_take_no_work_let_nobody_pass() -> None:
    made = fleet([host("a", pool="p"), host("b", pool="q")], pools=[pool("p", accepts_work=False), pool("q")])

    assert filters.pool_accepts_work.passes(made.columns, shape()).tolist() == [False, True]


def test_bug_orchard_2_2_5_a_label_without_value_is_not_met_by_a_host_without_the_key() -> None:
    hosts = [host("a"), host("b", labels={"gpu": ""}), host("c", labels={"gpu": "x"})]

    assert passing("labels", hosts, shape(labels={"gpu": ""})) == "b"


def test_each_filter_has_a_name_of_its_own_and_says_what_passes() -> None:
    assert len({one.name for one in filters.ALL}) == len(filters.ALL)
    assert all(one.sentence for one in filters.ALL)
