"""What each strategy chooses among hosts that differ in one thing, and among hosts that are equal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtflow.engine import strategies
from virtflow.engine.decide import decide
from virtflow.engine.preview import preview
from virtflow.engine.scores import busy
from virtflow.engine.strategies.random import draw
from virtflow.engine.strategies.strategy import Strategy
from virtflow.model.errors import InvalidStrategy
from virtflow.model.host import Host
from virtflow.model.plan import Placement
from virtflow.testing.builders import GIB, fleet, host, requests, shape

EMPTY = host("empty")
CPU_BUSY = host("cpu-busy", used={"cpu": 12_000})
MEMORY_BUSY = host("memory-busy", used={"memory": 48 * GIB})
DISK_BUSY = host("disk-busy", used={"disk": 900})
MANY = host("many", instances=9, used={"vms": 9})
HALF = host("half", used={"cpu": 8000, "memory": 32 * GIB, "disk": 500})
SMALL = host("small", cores=4, memory_gib=8, disk_gib=100)

TABLE = [
    ("least_loaded", [HALF, EMPTY, CPU_BUSY], "empty"),
    ("least_loaded", [CPU_BUSY, DISK_BUSY], "disk-busy"),  # 0.4 × 0.75 against 0.2 × 0.9
    ("least_loaded", [MEMORY_BUSY, CPU_BUSY], "cpu-busy"),  # equal: the lower name
    ("best_fit", [HALF, EMPTY, CPU_BUSY], "half"),
    ("best_fit", [EMPTY, DISK_BUSY], "disk-busy"),
    ("best_fit", [EMPTY, SMALL], "small"),  # of the smaller host a larger share is taken
    ("best_fit_absolute", [EMPTY, SMALL], "small"),
    ("best_fit_absolute", [EMPTY, DISK_BUSY, CPU_BUSY], "cpu-busy"),
    ("cpu", [CPU_BUSY, MEMORY_BUSY], "memory-busy"),
    ("memory", [CPU_BUSY, MEMORY_BUSY], "cpu-busy"),
    ("hybrid", [CPU_BUSY, DISK_BUSY], "disk-busy"),
    ("hybrid", [CPU_BUSY, MEMORY_BUSY], "cpu-busy"),
    ("distribute_load", [MANY, HALF], "half"),
    ("optimize_utilization", [MANY, HALF], "many"),
    ("virtflow", [HALF, EMPTY, MANY], "empty"),
    ("virtflow_packed", [HALF, EMPTY, MANY], "half"),
    ("round_robin", [HALF, EMPTY, MANY], "empty"),
]


@pytest.mark.parametrize(("name", "hosts", "expected"), TABLE)
def test_the_host_a_strategy_is_made_for_is_chosen(name: str, hosts: list[Host], expected: str) -> None:
    assert decide(fleet(hosts), requests(1, shape(strategy=name))).outcomes[0].host == expected


@pytest.mark.parametrize("name", [name for name in strategies.names() if name not in {"random", "round_robin"}])
def test_of_equal_hosts_the_one_with_fewer_instances_then_the_lower_name_is_chosen(name: str) -> None:
    by_number = name in {"distribute_load", "optimize_utilization"}
    more = 0 if by_number else 1
    hosts = [host("c"), host("b"), host("d", instances=more), host("a", instances=more)]

    chosen = decide(fleet(hosts), requests(1, shape(strategy=name))).outcomes[0].host

    assert chosen == ("a" if by_number else "b")


def test_the_scores_of_the_first_virtflow_come_out() -> None:
    """Its two mock hosts: 1.05 and 0.033. Here the lower wins, so `virtflow` has them with a minus."""
    bm01 = host("bm01", cores=16, memory_gib=32, vms=20, used={"cpu": 4800, "memory": 13107, "vms": 5})
    bm02 = host("bm02", cores=32, memory_gib=64, vms=15, used={"cpu": 22_400, "memory": 39322, "vms": 10})

    spread = preview(fleet([bm01, bm02]), requests(1, shape(strategy="virtflow"))[0])
    packed = preview(fleet([bm01, bm02]), requests(1, shape(strategy="virtflow_packed"))[0])

    assert (spread.winner.host, packed.winner.host) == ("bm01", "bm02")
    assert -spread.winner.score == pytest.approx(1.05, abs=1e-4)
    assert packed.winner.score == pytest.approx(0.033, abs=1e-3)


def test_bug_strato_4_1_disk_counts_in_best_fit_and_hardly_in_best_fit_absolute() -> None:
    """2 cores, 4 GiB and 100 GiB free are 6196 of their points; the 100 GiB are a hundred of them."""
    left = host("left", cores=2, memory_gib=4, disk_gib=100)
    full_disk = host("full-disk", disk_gib=1000, used={"disk": 990})
    full_cpu = host("full-cpu", used={"cpu": 4000})
    asked = shape(cores=1, memory_gib=1, disk_gib=1)

    scored = preview(fleet([left]), requests(1, shape(cores=1, memory_gib=0, strategy="best_fit_absolute"))[0])
    assert scored.winner.score == 6196 - 1000
    assert _choice("best_fit", [full_disk, full_cpu], asked) == "full-disk"
    assert _choice("best_fit_absolute", [full_disk, full_cpu], asked) == "full-cpu"


def _choice(name: str, hosts: list[Host], wanted: object) -> str:
    made = fleet(hosts, default_strategy=name)
    return decide(made, requests(1, wanted)).outcomes[0].host  # type: ignore[arg-type]


def test_weights_are_set_by_the_installation_and_overruled_by_the_request() -> None:
    made = fleet([CPU_BUSY, MEMORY_BUSY])
    made.weights = {"hybrid": {"cpu": 0.0, "memory": 1.0}}

    installation = preview(made, requests(1, shape(strategy="hybrid"))[0])
    request = preview(made, requests(1, shape(strategy="hybrid", weights={"cpu": 1.0, "memory": 0.0}))[0])

    assert installation.winner.host == "cpu-busy"
    assert request.winner.host == "memory-busy"
    assert [(part.name, part.weight) for part in request.winner.parts] == [("busy cpu", 1.0)]


def test_draws_are_fixed_for_ever() -> None:
    assert draw(b"") == 10451216379200822465
    assert draw(b"\x00") == 7350668447369684287
    assert draw(b"virtflow") == 14487606780824632664
    assert draw(bytes(range(65))) == 3204760203856781274


def test_every_possible_host_is_drawn_about_equally_often() -> None:
    made = fleet([host(f"h{number}", vms=10_000, cores=10_000, memory_gib=10_000) for number in range(5)])
    made.put_host(host("never", cordoned=True))

    placed = decide(made, requests(5000, shape(strategy="random"))).outcomes

    counts = [sum(one.host == f"h{number}" for one in placed) for number in range(5)]
    assert all(900 < count < 1100 for count in counts), counts


def test_the_same_request_draws_the_same_host_whatever_came_before() -> None:
    made, asked = fleet(5, default_strategy="random"), requests(20, shape(cores=0.1, memory_gib=0.1))
    together = [one.host for one in decide(made.fork(), asked).outcomes]

    assert [decide(made.fork(), [one]).outcomes[0].host for one in asked] == together


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20))
def test_turns_go_to_the_next_name_whoever_came_and_went(present: list[str]) -> None:
    """Each host stands in once, named by a letter; before every turn the set of possible hosts changes."""
    last = None
    for number, letter in enumerate(present):
        names = sorted({letter, present[0], present[-1]})
        made = fleet([host(name) for name in names], default_strategy="round_robin")
        plan = decide(made, requests(1, shape(), start=number), cursors={} if last is None else {"default": last})
        expected = next((name for name in names if last is None or name > last), names[0])
        assert plan.outcomes[0].host == expected
        last = expected


# ── the list ──────────────────────────────────────────────────────────────────────────────────────


def test_the_contract_of_names_holds() -> None:
    assert set(strategies.names()) >= {
        "least_loaded",
        "best_fit",
        "best_fit_absolute",
        "cpu",
        "memory",
        "hybrid",
        "round_robin",
        "random",
        "distribute_load",
        "optimize_utilization",
        "virtflow",
        "virtflow_packed",
    }


def test_each_strategy_says_what_it_is_for() -> None:
    for one in strategies.describe():
        assert one["optimises"].endswith(".")
        assert one["formula"]
        assert strategies.get(one["name"]).described() == one


def test_an_unknown_name_is_refused_and_the_known_ones_are_listed() -> None:
    with pytest.raises(InvalidStrategy) as refused:
        strategies.get("bestfit")
    assert all(name in refused.value.remedy for name in strategies.names())


def test_ours_cannot_be_replaced_and_others_must_make_sense() -> None:
    with pytest.raises(InvalidStrategy, match="one of ours"):
        strategies.register(Strategy("least_loaded", "x", "x", terms=(busy("cpu"),)))
    with pytest.raises(InvalidStrategy, match="exactly one"):
        strategies.register(Strategy("empty", "x", "x"))
    with pytest.raises(InvalidStrategy, match="beyond"):
        strategies.register(Strategy("huge", "x", "x", terms=(busy("cpu", 1e30),)))


def test_a_strategy_of_terms_from_others_works_like_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "_known", dict(strategies._known))
    strategies.register(Strategy("gpu_last", "Keeps GPUs free.", "busy gpu", terms=(busy("gpu", -1.0),)))
    made = fleet([host("free", gpus=4), host("taken", gpus=4, used={"gpu": 3})])

    placed = decide(made, requests(1, shape(gpus=1, strategy="gpu_last"))).outcomes[0]

    assert isinstance(placed, Placement)
    assert placed.host == "taken"
