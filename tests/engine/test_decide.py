"""Placing batches: order, gangs, poison, turns, and the mistakes of those before us."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.random_fleets import fleets, shapes

from virtflow.engine import strategies
from virtflow.engine.decide import decide
from virtflow.engine.fleet import Fleet
from virtflow.engine.verify import verify_plan
from virtflow.model.host import Host
from virtflow.model.plan import Placement, Plan, Rejection, Request
from virtflow.model.shape import Shape
from virtflow.testing.builders import fleet, host, pool, requests, shape


def chosen(plan: Plan) -> list[str | None]:
    return [outcome.host if isinstance(outcome, Placement) else None for outcome in plan.outcomes]


def place(made: Fleet, count: int, wanted: Shape) -> list[str | None]:
    return chosen(decide(made, requests(count, wanted)))


# ── what a batch is ───────────────────────────────────────────────────────────────────────────────


def test_room_is_taken_before_the_next_request_is_looked_at() -> None:
    made = fleet([host("a", cores=2), host("b", cores=3)])

    assert place(made, 6, shape(cores=1)) == ["a", "b", "b", "a", "b", None]
    assert (made.host("a").free["cpu"], made.host("b").free["cpu"]) == (0, 0)


def test_each_request_has_an_outcome_in_order() -> None:
    asked = [
        *requests(2, shape(cores=1)),
        *requests(1, shape(cores=99), start=2),
        *requests(2, shape(cores=2), start=3),
    ]

    plan = decide(fleet([host("a", cores=4)]), asked)

    assert [outcome.request for outcome in plan.outcomes] == asked
    assert chosen(plan) == ["a", "a", None, "a", None]


def test_an_empty_batch_and_an_empty_fleet_are_no_matter() -> None:
    assert decide(Fleet(), []) == Plan(())
    assert place(Fleet(), 2, shape()) == [None, None]


@pytest.mark.parametrize(
    "poison",
    [
        shape(pool="no-such-pool"),
        shape(strategy="no-such-strategy"),
        shape(custom={"dimension-nobody-has": 1}),
        shape(strategy="hybrid", weights={"no-such-weight": 1.0}),
        shape(strategy="hybrid", weights={"cpu": float("nan")}),
        shape(strategy="hybrid", weights={"cpu": float("inf")}),
        shape(strategy="least_loaded", weights={"cpu": 0.5}),
        Shape(wants=(("cpu", -1000), ("vms", 1))),
        Shape(wants=(("cpu", 2**70), ("vms", 1))),
        Shape(wants=(("cpu", True), ("vms", 1))),
        Shape(wants=(("cpu", 1000),) * 20),
        Shape(wants=(("cpu", "1"), ("vms", 1))),  # type: ignore[arg-type]
        shape(labels={"": ""}),
    ],
    ids=lambda wanted: str(wanted)[:60],
)
def test_a_poisonous_request_is_refused_and_delays_nobody(poison: Shape) -> None:
    asked = [*requests(1, shape()), *requests(2, poison, start=1), *requests(1, shape(), start=3)]

    plan = decide(fleet([host("a")]), asked)

    assert chosen(plan) == ["a", None, None, "a"]
    assert plan.outcomes[1] == Rejection(asked[1])


def test_a_pool_with_an_unknown_strategy_refuses_only_its_own() -> None:
    made = fleet([host("a", pool="odd"), host("b")], pools=[pool("odd", strategy="unheard-of")])

    assert place(made, 1, shape(pool="odd")) == [None]
    assert place(made, 1, shape(pool="odd", strategy="best_fit")) == ["a"]
    assert place(made, 1, shape()) == ["b"]


@given(fleets(), st.lists(shapes(), min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=20))
def test_no_plan_ever_overcommits_or_breaks_a_rule(some: list[Host], live: list[Shape], pattern: Sequence[int]) -> None:
    asked = [
        Request(at.to_bytes(16, "big"), live[which % len(live)], gang=b"g" if which == 3 else None)
        for at, which in enumerate(sorted(pattern))
    ]

    plan = decide(fleet(some), asked)

    assert verify_plan(some, plan) == []


@given(fleets(), st.lists(shapes(), min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=20))
def test_the_same_input_gives_the_same_plan_byte_for_byte(
    some: list[Host], live: list[Shape], pattern: Sequence[int]
) -> None:
    asked = [Request(at.to_bytes(16, "big"), live[which % len(live)]) for at, which in enumerate(pattern)]
    made = fleet(some)
    fork = made.fork()

    first, second = decide(made, asked), decide(fork, asked)

    assert msgspec.msgpack.encode(first) == msgspec.msgpack.encode(second)


@pytest.mark.parametrize("strategy", ["cpu", "best_fit", "virtflow"])
def test_hosts_whose_score_stays_the_same_take_turns_by_their_instances(strategy: str) -> None:
    wanted = Shape(wants=(("gpu", 1),), strategy=strategy)

    assert place(fleet([host("a", gpus=2), host("b", gpus=2)]), 5, wanted) == ["a", "b", "a", "b", None]


# ── gangs ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    made = fleet([host("a", cores=2), host("b", cores=2)])
    gang = requests(5, shape(cores=1), gang=b"g")

    assert chosen(decide(made, gang)) == [None] * 5
    assert made.room("a") == made.room("b") == ({"cpu": 0, "memory": 0, "disk": 0, "gpu": 0, "vms": 0}, 0)
    assert chosen(decide(made, gang[:4])) == ["a", "b", "a", "b"]


def test_the_room_of_a_gang_that_failed_is_free_for_the_next_request() -> None:
    made = fleet([host("a", cores=2)])
    asked = [*requests(3, shape(cores=1), gang=b"g"), *requests(2, shape(cores=1), start=3)]

    assert chosen(decide(made, asked)) == [None, None, None, "a", "a"]


def test_members_of_a_gang_may_differ_in_shape() -> None:
    made = fleet([host("a", cores=4), host("b", cores=1)])
    gang = [*requests(1, shape(cores=4), gang=b"g"), *requests(1, shape(cores=1), gang=b"g", start=1)]
    too_much = [*gang, *requests(1, shape(cores=1), gang=b"g", start=2)]

    assert chosen(decide(made.fork(), gang)) == ["a", "b"]
    assert chosen(decide(made.fork(), too_much)) == [None, None, None]


def test_two_gangs_side_by_side_are_two() -> None:
    made = fleet([host("a", cores=3)])
    asked = [*requests(2, shape(cores=1), gang=b"g"), *requests(2, shape(cores=1), gang=b"h", start=2)]

    assert chosen(decide(made, asked)) == ["a", "a", None, None]


def test_a_gang_that_fails_does_not_move_the_turn() -> None:
    made = fleet([host("a"), host("b")], default_strategy="round_robin")
    gang = [*requests(1, shape(), gang=b"g"), *requests(1, shape(cores=99), gang=b"g", start=1)]

    plan = decide(made, [*gang, *requests(1, shape(), start=2)])

    assert chosen(plan) == [None, None, "a"]
    assert plan.cursors == (("default", "a"),)


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_names_only_the_cursors_it_moved() -> None:
    made = fleet([host("a"), host("b"), host("c", pool="p")], default_strategy="round_robin")

    plan = decide(made, requests(1, shape()), cursors={"default": "a", "p": "c"})

    assert chosen(plan) == ["b"]
    assert plan.cursors == (("default", "b"),)


def test_each_pool_has_its_own_turn() -> None:
    made = fleet([host("a"), host("b"), host("c", pool="p"), host("d", pool="p")], default_strategy="round_robin")
    asked = [Request(bytes([at]), shape(pool="p" if at % 2 else "default")) for at in range(4)]

    assert chosen(decide(made, asked)) == ["a", "c", "b", "d"]


# ── the mistakes of those before us ───────────────────────────────────────────────────────────────


def test_bug_virtflow_13_room_is_compared_not_the_total() -> None:
    made = fleet([host("a", cores=16, used={"cpu": 15_000})])

    assert place(made, 1, shape(cores=2)) == [None]


def test_bug_virtflow_14_ties_go_to_the_name_not_to_the_order_of_the_inventory() -> None:
    assert place(fleet([host("z"), host("m"), host("a")]), 1, shape(strategy="virtflow")) == ["a"]


def test_bug_virtflow_19_equal_requests_do_not_all_go_to_one_host() -> None:
    placed = place(fleet(3, default_strategy="virtflow"), 9, shape())

    assert sorted(placed) == ["bm-001"] * 3 + ["bm-002"] * 3 + ["bm-003"] * 3


def test_bug_gogogo_22_the_quota_of_vms_holds_in_every_strategy() -> None:
    for name in strategies.names():
        assert place(fleet([host("a", vms=2)]), 3, shape(strategy=name)) == ["a", "a", None], name


def test_bug_gogogo_26_twenty_requests_larger_than_any_host_are_all_refused() -> None:
    made = fleet([host("bm01", cores=16, memory_gib=32), host("bm02", cores=32, memory_gib=64)])

    assert place(made, 20, shape(cores=1, memory_gib=80)) == [None] * 20


@pytest.mark.parametrize("count", [9, 60])
def test_bug_orchard_27_equal_vms_go_a_b_c_and_again_a_b_c(count: int) -> None:
    made = fleet([host("c"), host("a"), host("b")], default_strategy="distribute_load")

    assert place(made, count, shape(cores=0.1, memory_gib=0.1)) == ["a", "b", "c"] * (count // 3)


def test_another_strategy_of_the_installation_holds_from_the_next_decision_on() -> None:
    made = fleet([host("empty"), host("half", used={"cpu": 8000, "memory": 32 * 1024})])
    assert place(made, 1, shape()) == ["empty"]

    made.use_strategy("best_fit")

    assert place(made, 1, shape()) == ["half"]
    assert place(made, 1, shape(strategy="least_loaded")) == ["empty"]


def test_bug_orchard_28_an_overfull_host_has_no_room_not_endless_room() -> None:
    overfull = host("a", cores=2, used={"cpu": 3000})

    assert place(fleet([overfull]), 1, shape(cores=1)) == [None]
    assert fleet([overfull]).host("a").free["cpu"] == 0


def test_an_overfull_dimension_of_which_nothing_is_wanted_forbids_nothing() -> None:
    overfull = host("a", disk_gib=10, used={"disk": 30})

    assert place(fleet([overfull]), 1, shape(cores=1)) == ["a"]
    assert place(fleet([overfull]), 1, shape(cores=1, disk_gib=1)) == [None]


def test_bug_orchard_29_one_bad_request_does_not_abort_the_others() -> None:
    made = fleet([host("a")])
    asked = [*requests(1, shape(strategy="broken")), *requests(1, shape(), start=1)]

    assert chosen(decide(made, asked)) == [None, "a"]


def test_bug_orchard_31_processor_and_memory_are_counted_without_being_asked_to() -> None:
    assert place(fleet([host("a", cores=2, memory_gib=64)]), 3, shape(cores=1)) == ["a", "a", None]
    assert place(fleet([host("a", cores=64, memory_gib=2)]), 3, shape(memory_gib=1)) == ["a", "a", None]


def test_bug_buckyos_3_3_4_no_candidate_for_one_does_not_end_the_round() -> None:
    asked = [Request(bytes([at]), shape(cores=cores)) for at, cores in enumerate((1, 99, 1))]

    assert chosen(decide(fleet([host("a")]), asked)) == ["a", None, "a"]


def test_bug_buckyos_3_3_9_ties_are_never_random() -> None:
    some = [host(f"n{number}") for number in range(20)]

    assert {place(fleet(reversed(some)), 1, shape())[0] for _ in range(5)} == {"n0"}


def test_bug_buckyos_3_3_10_scores_are_no_whole_numbers_and_room_is_no_total() -> None:
    """Their integer division made every share 0 or 1, so that the loads of hosts could not be told apart."""
    made = fleet([host("a", used={"cpu": 9000}), host("b", used={"cpu": 8000}), host("c", used={"cpu": 7000})])

    assert place(made, 1, shape()) == ["c"]


def test_bug_strato_round_robin_is_not_skewed_when_the_possible_hosts_change() -> None:
    """Their counter indexes the eligible list: when a host drops out, some are skipped and some come twice."""
    made = fleet([host(name) for name in "abcd"], default_strategy="round_robin")
    first = decide(made, requests(2, shape()))
    made.put_host(host("a", cordoned=True))

    second = decide(made, requests(3, shape(), start=2), cursors=dict(first.cursors))

    assert chosen(first) + chosen(second) == ["a", "b", "c", "d", "b"]


def test_the_pool_without_a_name_is_a_pool_of_its_own_not_a_wildcard() -> None:
    made = fleet([host("a", pool="p"), host("b", pool="")])

    assert place(made, 2, shape(pool="")) == ["b", "b"]
    assert place(made, 1, shape(pool="p")) == ["a"]


def test_a_pool_closed_for_work_takes_none_until_it_opens() -> None:
    made = fleet([host("a")], pools=[pool("default", accepts_work=False)])
    assert place(made, 1, shape()) == [None]

    made.put_pool(pool("default"))
    assert place(made, 1, shape()) == ["a"]


def test_the_strategy_is_the_requests_else_the_pools_else_the_installations() -> None:
    some = [host("empty"), host("half", used={"cpu": 8000, "memory": 32 * 1024})]
    packs = [pool("default", strategy="best_fit")]

    assert place(fleet(some), 1, shape()) == ["empty"]
    assert place(fleet(some, default_strategy="best_fit"), 1, shape()) == ["half"]
    assert place(fleet(some, pools=packs), 1, shape()) == ["half"]
    assert place(fleet(some, pools=packs), 1, shape(strategy="least_loaded")) == ["empty"]
