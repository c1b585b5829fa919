"""The second opinion finds each kind of lie, and nothing where all is true."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.random_fleets import fleets, shapes

from virtflow.engine.decide import decide
from virtflow.engine.verify import CODES, verify, verify_plan
from virtflow.model.host import Host
from virtflow.model.plan import Placement, Plan, Rejection, Request
from virtflow.model.shape import Dedicated, Shape
from virtflow.model.violation import Held, HostRoom
from virtflow.testing.builders import fleet, host, requests, shape

ONE = shape(cores=1, memory_gib=1)
NOT_DEDICATED = shape(dedicated=Dedicated.FORBIDDEN)
ROOM = HostRoom(
    id=1,
    name="a",
    pool="default",
    zone="x",
    labels={"gpu": ""},
    allocatable={"cpu": 2000, "memory": 4096, "vms": 2},
    used={"cpu": 1000, "memory": 1024, "vms": 1},
    instances=1,
)
HELD = Held(instance="i", host_id=1, shape=ONE)


def codes(room: HostRoom, *held: Held) -> list[str]:
    return [one.code for one in verify([room], held)]


def changed(room: HostRoom = ROOM, **changes: object) -> HostRoom:
    return msgspec.structs.replace(room, **changes)


def test_a_true_ledger_has_no_violation() -> None:
    assert codes(ROOM, HELD) == []


@pytest.mark.parametrize(
    ("code", "room", "held"),
    [
        ("used_is_not_the_sum", changed(used={"cpu": 1000, "memory": 1023, "vms": 1}), [HELD]),
        ("used_is_not_the_sum", changed(used={**ROOM.used, "disk": 1}, was_shrunk=True), [HELD]),
        ("miscounted_instances", changed(instances=2), [HELD]),
        ("over_allocatable", changed(allocatable={"cpu": 999, "memory": 4096, "vms": 2}), [HELD]),
        ("unknown_host", ROOM, [HELD, Held(instance="j", host_id=7, shape=ONE)]),
        ("wrong_pool", changed(pool="p"), [HELD]),
        ("wrong_zone", ROOM, [Held(instance="i", host_id=1, shape=shape(zone="y"))]),
        ("labels_missing", changed(labels={}), [Held(instance="i", host_id=1, shape=shape(labels={"gpu": ""}))]),
        ("labels_missing", ROOM, [Held(instance="i", host_id=1, shape=shape(labels={"gpu": "x"}))]),
        ("dedicated_rule", ROOM, [Held(instance="i", host_id=1, shape=shape(dedicated=Dedicated.REQUIRED))]),
        ("dedicated_rule", changed(dedicated=True), [Held(instance="i", host_id=1, shape=NOT_DEDICATED)]),
    ],
)
def test_each_lie_is_found_and_nothing_else(code: str, room: HostRoom, held: list[Held]) -> None:
    found = verify([room], held)

    assert {one.code for one in found} == {code}
    assert all(one.text for one in found)


def test_an_instance_may_hold_room_once() -> None:
    twice = changed(used={"cpu": 2000, "memory": 2048, "vms": 2}, instances=2)

    assert codes(twice, HELD, HELD) == ["placed_twice"]


def test_use_below_nothing_is_a_lie() -> None:
    assert codes(changed(used={"cpu": -1}, instances=0)) == ["used_is_not_the_sum", "negative_use"]


def test_a_host_that_was_shrunk_may_hold_more_than_it_gives() -> None:
    shrunk = changed(allocatable={"cpu": 1, "memory": 1, "vms": 1}, was_shrunk=True)

    assert codes(shrunk, HELD) == []


def test_rules_bind_when_placing_not_for_ever() -> None:
    moved = Held(instance="i", host_id=1, shape=ONE, rules_bind=False)

    assert codes(changed(pool="renamed"), moved) == []


@given(fleets(), st.lists(shapes(), min_size=1, max_size=3), st.integers(0, 20))
def test_what_decide_places_makes_a_true_ledger(some: list[Host], live: list[Shape], count: int) -> None:
    empty = [msgspec.structs.replace(one, used={}, instances=0) for one in some]
    made = fleet(empty)
    asked = [Request(at.to_bytes(16, "big"), live[at % len(live)]) for at in range(count)]

    plan = decide(made, asked)

    held = [
        Held(instance=one.request.key.hex(), host_id=one.host_id, shape=one.request.shape)
        for one in plan.outcomes
        if isinstance(one, Placement)
    ]
    rows = [made.host(one.name) for one in empty]
    rooms = [
        HostRoom(
            id=row.id, name=row.name, pool=row.pool, zone=row.zone, dedicated=row.dedicated, labels=row.labels,
            allocatable=row.allocatable, used=row.used, instances=row.instances,
        )
        for row in rows
    ]  # fmt: skip
    assert verify(rooms, held) == []


# ── plans ─────────────────────────────────────────────────────────────────────────────────────────


def placement(
    host_name: str, wanted: Shape, *, number: int = 0, host_id: int = 1, gang: bytes | None = None
) -> Placement:
    return Placement(Request(bytes([number]), wanted, gang), host_id, host_name, 0.0)


def plan_codes(one: Host, *outcomes: Placement | Rejection) -> list[str]:
    return [found.code for found in verify_plan([one], Plan(outcomes))]


def test_a_plan_of_decide_is_fine() -> None:
    some = [host("a", cores=4), host("b", cores=2)]

    assert verify_plan(some, decide(fleet(some), requests(9, shape(cores=1)))) == []


def test_a_plan_that_overcommits_is_found() -> None:
    both = placement("a", shape(cores=2)), placement("a", shape(cores=3), number=1)

    assert plan_codes(host("a", id=1, cores=4), *both) == ["over_allocatable"]
    assert plan_codes(host("a", id=1, cores=5), *both) == []
    assert plan_codes(host("a", id=1, cores=5, used={"cpu": 1}), *both) == ["over_allocatable"]


def test_a_plan_that_breaks_rules_is_found() -> None:
    assert plan_codes(host("a", id=1, cordoned=True), placement("a", ONE)) == ["not_schedulable"]
    assert plan_codes(host("a", id=1, carries_virtflow=True), placement("a", ONE)) == ["on_self_host"]
    assert plan_codes(host("a", id=1, pool="p"), placement("a", ONE)) == ["wrong_pool"]
    assert plan_codes(host("a", id=1), placement("b", ONE)) == ["unknown_host"]
    assert plan_codes(host("a", id=1), placement("a", ONE, host_id=2)) == ["unknown_host"]
    assert plan_codes(host("a", id=1), placement("a", ONE), placement("a", ONE)) == ["placed_twice"]


def test_a_torn_gang_is_found() -> None:
    torn = placement("a", ONE, gang=b"g"), Rejection(Request(b"x", ONE, b"g"))

    assert plan_codes(host("a", id=1), *torn) == ["gang_torn"]


def test_every_code_has_a_sentence() -> None:
    assert all(CODES.values())
