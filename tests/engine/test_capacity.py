"""How many more fit, exactly: as many as can be placed one after the other."""

from hypothesis import given
from tests.engine.random_fleets import KEYED, fleets, shapes

from virtflow.engine.capacity import capacity
from virtflow.engine.decide import decide
from virtflow.engine.fleet import Fleet
from virtflow.model.host import Host
from virtflow.model.plan import Placement
from virtflow.model.shape import Shape
from virtflow.model.shape import shape as make_shape
from virtflow.testing.builders import fleet, host, requests, shape


def placed_until_full(made: Fleet, wanted: Shape, pool: str) -> int:
    there = make_shape(
        wanted.resources, pool=pool, dedicated=wanted.dedicated, labels=dict(wanted.labels), zone=wanted.zone
    )
    plan = decide(made.fork(), requests(500, there))
    return sum(isinstance(outcome, Placement) for outcome in plan.outcomes)


@given(fleets(), shapes(KEYED))
def test_capacity_is_what_can_be_placed_until_the_fleet_is_full(some: list[Host], wanted: Shape) -> None:
    made = fleet(some)

    seen = capacity(made, wanted)

    assert list(seen.pools) == sorted({one.spec.pool for one in some})
    for name, slots in seen.pools.items():
        assert slots.now == placed_until_full(made, wanted, name)
    assert seen.total.now == sum(slots.now for slots in seen.pools.values())


@given(fleets(min_size=1), shapes(KEYED))
def test_no_loss_of_one_host_costs_more_than_the_biggest_one(some: list[Host], wanted: Shape) -> None:
    seen = capacity(fleet(some), wanted)

    without = {one.name: fleet([other for other in some if other is not one]) for one in some}
    remaining = {name: capacity(made, wanted).total.now for name, made in without.items()}

    assert seen.total.after_loss == min(remaining.values())
    if seen.total.now:
        assert remaining[seen.total.biggest_host] == seen.total.after_loss


def test_pools_and_the_biggest_host_are_told() -> None:
    made = fleet([host("a", cores=4), host("b", cores=9), host("c", pool="p", cores=2), host("d", cordoned=True)])

    seen = capacity(made, shape(cores=2))

    assert (seen.total.now, seen.total.after_loss, seen.total.hosts, seen.total.biggest_host) == (7, 3, 3, "b")
    assert (seen.pools["p"].now, seen.pools["p"].after_loss) == (1, 0)


def test_a_dimension_nobody_has_has_no_slots() -> None:
    assert capacity(fleet(3), shape(custom={"unheard-of": 1})).total.now == 0
    assert capacity(Fleet(), shape()).total.biggest_host == ""
