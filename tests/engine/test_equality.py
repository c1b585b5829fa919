"""The fast engine against the plain ones: the same host, every time, over random fleets and histories."""

import importlib.util
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.random_fleets import KEYED, fleets, hosts, shapes

from virtflow.engine.decide import decide
from virtflow.engine.fleet import Fleet
from virtflow.model.host import Host
from virtflow.model.plan import Placement, Request
from virtflow.model.shape import Shape
from virtflow.testing.builders import host, pool, requests, shape
from virtflow.testing.oracle import PlainFleet, PlainHost, ScanFleet

#: in Python, and in machine code where numba is there
WAYS = (False, True) if importlib.util.find_spec("numba") else (False,)
POOLS = (pool("a", strategy="best_fit"), pool("b", accepts_work=True))


def names_of(fleet: Fleet, requests: Sequence[Request], cursors: dict[str, str]) -> list[str | None]:
    plan = decide(fleet, requests, cursors=cursors)
    cursors.update(plan.cursors)
    return [outcome.host if isinstance(outcome, Placement) else None for outcome in plan.outcomes]


def ask(pattern: Sequence[int], live: Sequence[Shape], start: int) -> list[Request]:
    return [Request((start + at).to_bytes(16, "big"), live[which % len(live)]) for at, which in enumerate(pattern)]


patterns = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(
    fleets(min_size=1),
    st.lists(shapes(), min_size=1, max_size=4),
    st.lists(
        st.one_of(
            st.tuples(st.just("place"), patterns),
            st.tuples(st.just("release"), st.integers(0, 1000)),
            st.tuples(st.just("change"), hosts()),
            st.tuples(st.just("remove"), st.integers(0, 1000)),
            st.tuples(st.just("room"), st.integers(0, 1000)),
            st.tuples(st.just("self"), st.integers(0, 1000)),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(WAYS),
)
def test_every_history_ends_on_the_same_hosts_as_a_plain_loop(
    fleet_hosts: list[Host], live: list[Shape], history: list[tuple[str, object]], compiled: bool
) -> None:
    fleet, plain, cursors = Fleet(compiled=compiled), PlainFleet(fleet_hosts, POOLS), {}
    for one in POOLS:
        fleet.put_pool(one)
    fleet.put_hosts(fleet_hosts)
    placed: list[tuple[str, Shape]] = []
    for step, (what, thing) in enumerate(history):
        if what == "place":
            asked = ask(thing, live, 100 * step)
            expected = [plain.place(request) for request in asked]
            assert names_of(fleet, asked, cursors) == expected
            placed += [(name, request.shape) for name, request in zip(expected, asked, strict=True) if name]
        elif what == "release" and placed:
            name, shape = placed.pop(thing % len(placed))
            if name in plain.hosts:
                fleet.give(fleet.host(name).id, shape)
                plain.hosts[name].count(shape, -1)
        elif what == "change":
            _put(fleet, plain, thing)
        elif what == "remove" and len(plain.hosts) > 1:
            name = sorted(plain.hosts)[thing % len(plain.hosts)]
            assert fleet.remove_host(name)
            del plain.hosts[name]
        elif what == "room" and plain.hosts:
            name = sorted(plain.hosts)[thing % len(plain.hosts)]
            fleet.set_room(name, {"cpu": 1000, "memory": 512}, 1)
            plain.hosts[name].used, plain.hosts[name].instances = {"cpu": 1000, "memory": 512}, 1
        elif what == "self" and plain.hosts:
            name = sorted(plain.hosts)[thing % len(plain.hosts)]
            one = plain.hosts[name]
            one.host = msgspec.structs.replace(one.host, carries_virtflow=not one.host.carries_virtflow)
            assert fleet.set_self_hosts(plain.hosts[known].host.carries_virtflow for known in fleet.names)
        placed = [(name, shape) for name, shape in placed if name in plain.hosts]


def _put(fleet: Fleet, plain: PlainFleet, host: Host) -> None:
    """A changed host keeps what is taken from it."""
    known = plain.hosts.get(host.name)
    if known is not None:
        host = msgspec.structs.replace(host, used=dict(known.used), instances=known.instances)
    fleet.put_host(host)
    plain.hosts[host.name] = PlainHost(host)


@given(fleets(min_size=13, max_size=60), st.lists(shapes(KEYED), min_size=1, max_size=3), patterns)
def test_a_full_scan_with_arrays_chooses_the_same_hosts(
    fleet_hosts: list[Host], live: list[Shape], pattern: list[int]
) -> None:
    fleet, scan = Fleet(), ScanFleet(fleet_hosts)
    fleet.put_hosts(fleet_hosts)
    requests = ask(pattern, live, 0)
    assert names_of(fleet, requests, {}) == [scan.place(request) for request in requests]


@given(fleets(min_size=2), st.lists(shapes(), min_size=1, max_size=3), patterns, st.randoms(use_true_random=False))
def test_the_order_in_which_hosts_are_put_changes_nothing(
    fleet_hosts: list[Host], live: list[Shape], pattern: list[int], chance: object
) -> None:
    requests = ask(pattern, live, 0)
    shuffled = list(fleet_hosts)
    chance.shuffle(shuffled)
    at_once, one_by_one = Fleet(), Fleet()
    at_once.put_hosts(fleet_hosts)
    for one in shuffled:
        one_by_one.put_host(one)
    assert msgspec.json.encode(_shown(decide(at_once, requests))) == msgspec.json.encode(
        _shown(decide(one_by_one, requests))
    )


def _shown(plan: object) -> object:
    return [(type(outcome).__name__, outcome) for outcome in plan.outcomes], plan.cursors


@pytest.mark.parametrize("compiled", WAYS)
def test_use_of_what_a_host_does_not_have_counts_whole(compiled: bool) -> None:
    """5 GiB used of none are five times too much, not two and a half: below the 5 of 1 that the other has."""
    none, little = host("none", disk_gib=0, used={"disk": 5}), host("little", disk_gib=10, used={"disk": 50})
    packed = Fleet("best_fit", compiled=compiled)
    packed.put_hosts([none, little])

    assert names_of(packed, requests(3, shape(cores=0.1, memory_gib=0.1)), {}) == ["none"] * 3


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("strategy", KEYED)
def test_long_runs_over_several_blocks_match_a_full_scan(strategy: str, compiled: bool) -> None:
    fleet_hosts = [
        host(f"bm-{number:04}", cores=8 + number % 5, memory_gib=32 + number % 7, used={"disk": number % 11})
        for number in range(400)
    ]
    fleet, scan = Fleet(strategy, compiled=compiled), ScanFleet(fleet_hosts, default_strategy=strategy)
    fleet.put_hosts(fleet_hosts)
    small, large = shape(cores=1, memory_gib=4, disk_gib=7), shape(cores=3, memory_gib=2)
    for wanted, count in ((small, 300), (large, 200), (small, 100), (large, 900)):
        asked = requests(count, wanted)
        assert names_of(fleet, asked, {}) == [scan.place(request) for request in asked]
