"""Why not: the right code, true counts, the nearest miss, and changes that really help."""

from itertools import combinations

import pytest
from hypothesis import assume, given
from tests.engine.random_fleets import fleets, shapes

from virtflow.engine.constraints import constraints_of, minimal
from virtflow.engine.decide import decide
from virtflow.engine.explain import CODES, MISTAKES, explain
from virtflow.engine.fleet import Fleet
from virtflow.engine.relax import CHANGES_MAX, patched
from virtflow.model.explanation import Explanation
from virtflow.model.host import Host
from virtflow.model.plan import Placement
from virtflow.model.pool import Pool
from virtflow.model.shape import Dedicated, Shape
from virtflow.testing.builders import fleet, host, pool, requests, shape

FULL = host("full", cores=4, used={"cpu": 4000})
GPU = host("gpu", labels={"gpu": "a100"}, zone="x")

TABLE: list[tuple[str, list[Host], list[Pool], Shape]] = [
    ("no_available_hosts", [], [], shape()),
    ("no_available_hosts", [host("a", pool="p")], [pool("default")], shape()),
    ("no_available_hosts", [host("a", cordoned=True), host("b", missing=True)], [], shape()),
    ("only_self_hosts", [host("a", carries_virtflow=True)], [], shape()),
    ("only_self_hosts", [host("a", carries_virtflow=True, labels={"x": "y"}), FULL], [], shape(labels={"x": "y"})),
    ("only_self_hosts", [host("a", carries_virtflow=True, cordoned=True)], [], shape(cores=99)),
    ("insufficient_resources", [FULL, host("a", carries_virtflow=True)], [], shape(cores=1)),
    ("larger_than_any_host", [FULL, host("a", carries_virtflow=True)], [], shape(cores=8)),
    ("no_available_hosts", [host("a", cordoned=True), host("b", carries_virtflow=True)], [], shape()),
    ("no_such_pool", [host("a")], [], shape(pool="p")),
    ("no_such_pool", [host("a")], [], shape(pool="")),
    ("pool_closed", [host("a")], [pool("default", accepts_work=False)], shape()),
    ("insufficient_resources", [FULL], [], shape(cores=1)),
    ("insufficient_resources", [FULL, host("a", cordoned=True)], [], shape(cores=1)),
    ("larger_than_any_host", [FULL], [], shape(cores=5)),
    ("larger_than_any_host", [FULL, GPU], [], shape(cores=5, labels={"gpu": "a100"}, memory_gib=65)),
    ("larger_than_any_host", [host("a")], [], shape(custom={"unheard-of": 1})),
    ("larger_than_any_host", [host("a", cores=1), host("b", memory_gib=1)], [], shape(cores=2, memory_gib=2)),
    ("label_unsatisfied", [FULL, GPU], [], shape(labels={"gpu": "h100"})),
    ("zone_unsatisfied", [FULL, GPU], [], shape(zone="y")),
    ("no_dedicated_hosts", [FULL], [], shape(dedicated=Dedicated.REQUIRED)),
    ("only_dedicated_hosts", [host("a", dedicated=True)], [], shape(dedicated=Dedicated.FORBIDDEN)),
    ("constraints_unsatisfied", [GPU, host("a", zone="y")], [], shape(labels={"gpu": "a100"}, zone="y")),
    ("invalid_strategy", [FULL], [], shape(strategy="bestfit")),
    ("invalid_weights", [FULL], [], shape(strategy="hybrid", weights={"colour": 1})),
    ("invalid_amount", [FULL], [], Shape(wants=(("cpu", -1),))),
    ("invalid_amount", [FULL], [], Shape(wants=(("cpu", 1), ("cpu", 2)))),
    ("fits_now", [host("a")], [], shape()),
]


@pytest.mark.parametrize(("code", "hosts", "pools", "wanted"), TABLE)
def test_the_code_says_what_is_wrong(code: str, hosts: list[Host], pools: list[Pool], wanted: Shape) -> None:
    seen = explain(fleet(hosts, pools=pools), wanted)

    assert seen.code == code
    assert seen.kind == ("request" if code in MISTAKES else "capacity")
    assert seen.text


def test_a_gang_whose_members_fit_alone_is_told_so() -> None:
    assert explain(fleet([host("a", cores=1)]), shape(cores=1), gang=2).code == "gang_incomplete"


def test_every_code_has_a_sentence_and_every_sentence_a_code_that_can_happen() -> None:
    can_happen = {code for code, *_ in TABLE} | {"gang_incomplete", "strategy_failed"}

    assert set(CODES) == can_happen
    assert set(CODES) >= MISTAKES


def test_filters_count_the_hosts_they_refuse_and_those_they_alone_refuse() -> None:
    labelled = host("d", labels={"gpu": "a100"}, cordoned=True)
    some = [FULL, host("a", cordoned=True), host("b", cordoned=True, cores=1), GPU, host("c", pool="p"), labelled]
    made = fleet(some)

    seen = explain(made, shape(cores=2, labels={"gpu": "a100"}, zone="y"))

    assert seen.hosts_considered == 5
    assert {one.filter: (one.hosts, one.alone) for one in seen.filters} == {
        "schedulable": (3, 0),
        "labels": (3, 0),
        "zone": (5, 1),
        "enough_room": (2, 0),
    }


def test_the_nearest_miss_violates_least_then_lacks_least_then_has_the_lowest_name() -> None:
    made = fleet([
        host("far", cores=8, used={"cpu": 8000, "memory": 64 * 1024}),
        host("near-b", cores=8, used={"cpu": 7000}),
        host("near-a", cores=8, used={"cpu": 7000}),
        host("nearer-but-cordoned", cores=8, used={"cpu": 6500}, cordoned=True),
    ])  # fmt: skip

    seen = explain(made, shape(cores=2))

    assert (seen.nearest.host, seen.nearest.short, seen.nearest.refused_by) == ("near-a", {"cpu": 1000}, ())
    assert seen.nearest.text == "near-a: cpu 1 cores short"


def test_tenants_learn_no_name_of_a_host() -> None:
    made = fleet(
        [host("secret-1", cores=2, used={"cpu": 2000}), host("secret-2", pool="p"), host("secret-3", cordoned=True)]
    )

    seen = explain(made, shape(cores=1)).for_tenants()

    assert "secret" not in str(seen)


def test_changes_are_spelled_out_with_the_hosts_they_unlock() -> None:
    made = fleet(
        [
            *(host(f"gpu{n}", labels={"gpu": "a100"}, used={"memory": (63 - n) * 1024}) for n in range(3)),
            *(host(f"plain{n}", memory_gib=8) for n in range(5)),
            *(host(f"other{n}", pool="other", labels={"gpu": "a100"}) for n in range(2)),
            host("cordoned", labels={"gpu": "a100"}, cordoned=True),
        ],
        pools=[pool("default")],
    )

    seen = explain(made, shape(memory_gib=6, labels={"gpu": "a100"}))

    assert [(one.code, one.text, one.request) for one in seen.changes] == [
        ("drop_label", "without label gpu=a100: 5 hosts", {"labels": {"gpu": None}}),
        ("less", "4096 MiB less memory: 2 hosts", {"resources": {"memory": 2048}}),
        ("other_pool", "pool other: 2 hosts", {"pool": "other"}),
        ("less", "3072 MiB less memory: 1 host", {"resources": {"memory": 3072}}),
        ("uncordon", "hosts taken back into service: 1 host", {}),
    ]


def test_a_larger_step_is_suggested_only_if_it_unlocks_twice_as_many() -> None:
    alike = fleet([host(f"h{number}", cores=2, used={"cpu": 1500}) for number in range(5)])

    assert [one.text for one in explain(alike, shape(cores=1)).changes] == ["0.5 cores less cpu: 5 hosts"]


def test_what_a_vm_cannot_be_without_is_never_suggested_away() -> None:
    seen = explain(fleet([host("a", cores=2, used={"cpu": 2000}), host("b", vms=0)]), shape(cores=1, memory_gib=1))

    assert [(one.code, one.request) for one in seen.changes] == [("raise_quota", {})]


def test_a_pool_whose_strategy_nobody_knows_is_not_suggested() -> None:
    made = fleet([FULL, host("a", pool="odd"), host("b", pool="even")], pools=[pool("odd", strategy="unheard-of")])

    assert [one.text for one in explain(made, shape(cores=1)).changes] == ["pool even: 1 host"]


@given(fleets(min_size=1), shapes())
def test_applying_a_suggested_change_places_the_request_for_certain(some: list[Host], wanted: Shape) -> None:
    made = fleet(some)
    seen = _refused(made, wanted)

    for change in seen.changes:
        if change.request:
            outcome = decide(made.fork(), requests(1, patched(wanted, change.request))).outcomes[0]
            assert isinstance(outcome, Placement), change


@given(fleets(min_size=1), shapes())
def test_a_change_unlocks_exactly_so_many_hosts(some: list[Host], wanted: Shape) -> None:
    made = fleet(some)

    for change in _refused(made, wanted).changes:
        if change.request:
            constraints = constraints_of(made.columns, patched(wanted, change.request))
            unlocked = sum(not any(one.refused[row] for one in constraints) for row in range(len(made)))
            assert unlocked == change.hosts, change


@given(fleets(min_size=1), shapes())
def test_no_smaller_change_than_the_smallest_helps(some: list[Host], wanted: Shape) -> None:
    """Dropping any fewer constraints than a change does leaves every host closed."""
    made = fleet(some)
    _refused(made, wanted)
    violated = {
        sum(1 << bit for bit, one in enumerate(constraints_of(made.columns, wanted)) if one.refused[row])
        for row in range(len(made))
    }

    smallest = minimal(list(violated))

    assert all(any(small & mask == small for small in smallest) for mask in violated)
    assert not any(left & right == left for left, right in combinations(smallest, 2))
    assert len(explain(made, wanted).changes) <= CHANGES_MAX


def _refused(made: Fleet, wanted: Shape) -> Explanation:
    """The explanation of a request that finds no host."""
    assume(not isinstance(decide(made.fork(), requests(1, wanted)).outcomes[0], Placement))
    return explain(made, wanted)


def test_more_constraints_than_a_machine_word_has_bits_are_no_matter() -> None:
    labels = {f"label-{number}": "x" for number in range(64)}
    made = fleet([host("a", labels={**labels, "label-63": "y"}), host("b", labels={**labels, "label-0": "y"})])

    seen = explain(made, shape(labels=labels))

    assert [one.request for one in seen.changes] == [{"labels": {"label-0": None}}, {"labels": {"label-63": None}}]
