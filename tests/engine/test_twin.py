"""The compiled twin: its tables grow, are reused and are forgotten without changing a single choice."""

import subprocess
import sys

import pytest

pytest.importorskip("numba")

from virtflow.engine import fleet as fleet_module
from virtflow.engine import rankings as rankings_module
from virtflow.engine import twin as twin_module
from virtflow.engine.decide import decide, warm_up
from virtflow.engine.fleet import Fleet
from virtflow.model.plan import Request
from virtflow.testing.builders import fleet, host, requests, shape


def some_hosts(*, compiled: bool, count: int = 150) -> Fleet:
    return fleet(
        [
            host(f"h{number:04}", cores=4 + number % 3, vms=3, labels={"odd": str(number % 2)})
            for number in range(count)
        ],
        compiled=compiled,
    )


def mixed(strategy: str, count: int = 600) -> list[Request]:
    shapes = [
        shape(cores=0.1 * number, strategy=strategy, labels={"odd": "1"} if number % 3 == 0 else {})
        for number in range(1, 12)
    ]
    return [one for number in range(count) for one in requests(1, shapes[number * 7 % 11], start=number)]


@pytest.mark.parametrize("strategy", ["least_loaded", "best_fit", "virtflow_packed", "best_fit_absolute"])
def test_both_ways_make_the_same_plan_until_nothing_fits(strategy: str) -> None:
    asked = mixed(strategy)

    assert decide(some_hosts(compiled=True), asked) == decide(some_hosts(compiled=False), asked)


@pytest.mark.parametrize("strategy", ["least_loaded", "best_fit"])
def test_tight_limits_cost_time_but_change_nothing(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = mixed(strategy)
    expected = decide(some_hosts(compiled=False), asked)
    for limit, value in (("RANKINGS_MAX", 2), ("RANKINGS_MIN", 2), ("SHAPES_MAX", 3)):
        monkeypatch.setattr(rankings_module, limit, value)
    monkeypatch.setattr(twin_module, "SHAPES_MAX", 3)
    monkeypatch.setattr(fleet_module, "CHANGES_KEPT_MAX", 8)

    made = some_hosts(compiled=True)
    outcomes = [one for start in range(0, len(asked), 50) for one in decide(made, asked[start : start + 50]).outcomes]

    assert tuple(outcomes) == expected.outcomes


def test_batches_of_both_ways_may_alternate_on_one_fleet() -> None:
    asked = mixed("best_fit", 200)
    made, plain = some_hosts(compiled=True), some_hosts(compiled=False)

    for start in range(0, 200, 20):
        made.compiled = start % 40 == 0
        part = asked[start : start + 20]
        assert decide(made, part) == decide(plain, part)
        for one in (made, plain):
            one.give(one.host_at(start % 150).id, shape(cores=0.1))
            one.put_host(host(f"h{start:04}", cores=7, labels={"odd": "1"}, cordoned=start % 3 == 0))


def test_a_host_that_is_cordoned_between_batches_takes_nothing_more() -> None:
    made = fleet([host("a"), host("b")], compiled=True)
    assert {one.host for one in decide(made, requests(4, shape())).outcomes} == {"a", "b"}

    made.put_host(host("a", cordoned=True))

    assert {one.host for one in decide(made, requests(4, shape())).outcomes} == {"b"}


def test_turns_gangs_and_poison_stand_beside_compiled_neighbours() -> None:
    asked = [
        *requests(20, shape(cores=1)),
        *requests(3, shape(strategy="round_robin"), start=20),
        *requests(4, shape(cores=1), gang=b"g", start=23),
        *requests(2, shape(strategy="unheard-of"), start=27),
        *requests(20, shape(cores=2, strategy="best_fit"), start=29),
    ]

    assert decide(some_hosts(compiled=True), asked) == decide(some_hosts(compiled=False), asked)


def test_it_can_be_compiled_ahead() -> None:
    assert warm_up()


def test_no_round_waits_for_the_compiler() -> None:
    """A leader's first large batch once loaded it in the middle of the round, and the office went to the next."""
    source = """
import sys
from virtflow.engine.decide import decide, is_worth_compiling, warm_up
from virtflow.testing.builders import fleet, host, requests, shape

assert not is_worth_compiling()
first = decide(fleet([host("a")]), requests(20, shape()))
assert not is_worth_compiling()
decide(fleet([host("a")]), requests(1_000, shape()))
assert is_worth_compiling()
assert "numba" not in sys.modules
assert warm_up()
assert "numba" in sys.modules
assert decide(fleet([host("a")]), requests(20, shape())) == first
"""
    subprocess.run([sys.executable, "-c", source], check=True, timeout=100)
