"""Rankings: they catch up by whatever way is shortest, and always end where a fresh one begins."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.random_fleets import KEYED, fleets, shapes

from virtflow.engine import fleet as fleet_module
from virtflow.engine import rankings as rankings_module
from virtflow.engine import strategies
from virtflow.engine.columns import Columns
from virtflow.engine.decide import decide
from virtflow.engine.fleet import Fleet
from virtflow.engine.keys import IMPOSSIBLE
from virtflow.engine.ranking import BLOCK
from virtflow.engine.rankings import rankings_of
from virtflow.engine.strategies.strategy import Possible, Strategy
from virtflow.model.host import Host
from virtflow.model.plan import Placement
from virtflow.model.shape import Shape
from virtflow.testing.builders import fleet, host, requests, shape

HOSTS = 3 * BLOCK + 7


def some_hosts(count: int = HOSTS) -> Fleet:
    return fleet([host(f"h{number:04}", cores=4 + number % 3, vms=3) for number in range(count)])


@pytest.mark.parametrize("changes", [0, 1, 10, 30, 60, HOSTS])
@pytest.mark.parametrize("strategy", ["least_loaded", "best_fit", "round_robin", "random"])
def test_a_ranking_that_catches_up_equals_a_fresh_one(changes: int, strategy: str) -> None:
    made, wanted = some_hosts(), shape(cores=2, strategy=strategy)
    ranking = rankings_of(made).of(wanted).ranking()
    assert ranking.nth(2**64 - 1) == HOSTS - 1

    for number in range(changes):
        made.take(made.host_at(HOSTS - 1 - number * 7 % HOSTS).id, shape(cores=3))
    caught_up = rankings_of(made).of(wanted).ranking()
    fresh = rankings_of(made.fork()).of(wanted).ranking()

    assert caught_up is ranking
    assert np.array_equal(caught_up.keys, fresh.keys)
    assert np.array_equal(caught_up.minima, fresh.minima)
    assert [caught_up.nth(draw << 60) for draw in range(16)] == [fresh.nth(draw << 60) for draw in range(16)]


@given(fleets(min_size=1, max_size=8), shapes(KEYED), st.sampled_from(("cpu", "disk", "gpu")), st.integers(0, 9000))
def test_one_host_alone_is_scored_as_it_is_among_all(
    some: list[Host], wanted: Shape, dimension: str, used: int
) -> None:
    made = fleet(some)
    placer = rankings_of(made).of(wanted)
    assume(placer is not None)
    for one in some:
        made.set_room(one.name, {dimension: used}, 2)
        caught_up = placer.ranking()

    assert np.array_equal(caught_up.keys, rankings_of(made.fork()).of(wanted).ranking().keys)


def test_a_host_that_is_relabelled_or_cordoned_is_seen_at_once() -> None:
    made = some_hosts(3)
    gpu = shape(labels={"gpu": "yes"})
    assert not isinstance(decide(made, requests(1, gpu)).outcomes[0], Placement)

    made.put_host(host("h0001", labels={"gpu": "yes"}))
    assert decide(made, requests(1, gpu)).outcomes[0].host == "h0001"

    made.put_host(host("h0001", labels={"gpu": "yes"}, cordoned=True))
    assert not isinstance(decide(made, requests(1, gpu)).outcomes[0], Placement)


def test_shapes_that_spread_share_a_ranking_until_the_best_host_has_no_room() -> None:
    made = fleet([host("large", cores=64, used={"cpu": 32_000}), host("small", cores=2, memory_gib=2, disk_gib=1)])
    small, large = shape(cores=1), shape(cores=16)

    assert [one.host for one in decide(made, [*requests(1, large), *requests(1, small)]).outcomes] == ["large", "small"]
    assert [one.host for one in decide(made, requests(1, large)).outcomes] == ["large"]


@given(st.sets(st.integers(0, 2 * BLOCK + 4), max_size=40), st.integers(0, 2 * BLOCK + 5), st.integers(0, 2**64 - 1))
def test_turns_and_draws_count_possible_hosts_only(full: set[int], start: int, draw: int) -> None:
    size = 2 * BLOCK + 5
    made = fleet([host(f"h{number:04}", vms=0 if number in full else 1) for number in range(size)])
    ranking = rankings_of(made).of(shape(strategy="random")).ranking()
    possible = [row for row in range(size) if row not in full]

    later = [row for row in possible if row >= start]
    assert ranking.first_from(start) == (later or possible or [-1])[0]
    assert ranking.nth(draw) == (possible[draw * len(possible) >> 64] if possible else -1)


def test_counts_of_possible_hosts_follow_every_change() -> None:
    made = fleet([host(f"h{number}", vms=1) for number in range(5)], default_strategy="random")

    drawn = [decide(made, requests(1, shape(), start=number)).outcomes[0] for number in range(6)]

    assert sorted(one.host for one in drawn[:5]) == [f"h{number}" for number in range(5)]
    assert not isinstance(drawn[5], Placement)


@pytest.mark.parametrize("strategy", ["least_loaded", "best_fit"])
def test_tight_limits_cost_time_but_change_nothing(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [shape(cores=0.1 * number, strategy=strategy) for number in range(1, 12)]
    asked = [one for number in range(300) for one in requests(1, shapes[number * 7 % 11], start=number)]
    expected = decide(some_hosts(), asked)

    monkeypatch.setattr(fleet_module, "CHANGES_KEPT_MAX", 8)
    monkeypatch.setattr(rankings_module, "RANKINGS_MAX", 2)
    monkeypatch.setattr(rankings_module, "RANKINGS_MIN", 2)
    monkeypatch.setattr(rankings_module, "SHAPES_MAX", 3)

    assert decide(some_hosts(), asked) == expected


# ── strategies of others ──────────────────────────────────────────────────────────────────────────


def relative(hosts: Columns, wanted: Shape, weights: object) -> np.ndarray:
    """Compares hosts with one another, so that no host can be scored alone."""
    return -np.abs(hosts.instances - hosts.instances.mean())


def fails(hosts: Columns, wanted: Shape, weights: object) -> np.ndarray:
    raise ZeroDivisionError


def nothing(hosts: Columns, wanted: Shape, weights: object) -> np.ndarray:
    return np.full(len(hosts), np.nan)


def too_few(hosts: Columns, wanted: Shape, weights: object) -> np.ndarray:
    return np.zeros(1)


def wild(possible: object, request: object, last: object) -> int:
    return 17


def last_by_name(possible: Possible, request: object, last: object) -> int:
    return possible.nth(2**64 - 1)


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strategies of others, known during one test."""
    monkeypatch.setattr(strategies, "_known", dict(strategies._known))
    for score in (relative, fails, nothing, too_few):
        strategies.register(Strategy(score.__name__, "for this test", "see above", score=score))
    for choose in (wild, last_by_name):
        strategies.register(Strategy(choose.__name__, "for this test", "see above", choose=choose))


@pytest.mark.usefixtures("others")
def test_any_function_of_arrays_may_be_a_strategy() -> None:
    made = fleet([host("a", instances=1), host("b", instances=2), host("c", instances=6)])

    placed = decide(made, requests(3, shape(strategy="relative"))).outcomes

    assert [one.host for one in placed] == ["c", "c", "c"]


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("name", ["fails", "nothing", "too_few", "wild"])
def test_a_strategy_that_fails_refuses_its_own_requests_and_no_others(name: str) -> None:
    asked = [*requests(2, shape(strategy=name)), *requests(1, shape(), start=2)]

    placed = decide(fleet(3), asked).outcomes

    assert [isinstance(one, Placement) for one in placed] == [False, False, True]


@pytest.mark.usefixtures("others")
def test_a_rule_of_choice_may_come_from_others() -> None:
    placed = decide(fleet(3), requests(2, shape(strategy="last_by_name"))).outcomes

    assert [one.host for one in placed] == ["bm-003", "bm-003"]


def test_keys_behind_the_last_host_are_never_possible() -> None:
    ranking = rankings_of(some_hosts()).of(shape()).ranking()

    assert (ranking.keys[HOSTS:] == IMPOSSIBLE).all()
