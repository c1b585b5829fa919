"""Hypothesis strategies for small, odd fleets and requests: equal hosts, full hosts, hosts nobody may use."""

from hypothesis import strategies as st

from virtflow.model.host import Host
from virtflow.model.shape import Dedicated, Shape
from virtflow.testing.builders import host, shape

POOLS = ("", "a", "b")
ZONES = ("", "x", "y")
KEYED = (
    "least_loaded",
    "best_fit",
    "best_fit_absolute",
    "cpu",
    "memory",
    "hybrid",
    "distribute_load",
    "optimize_utilization",
    "virtflow",
    "virtflow_packed",
)

labels = st.dictionaries(st.sampled_from(("gpu", "ssd")), st.sampled_from(("", "a100", "yes")), max_size=2)
names = st.integers(0, 400).map(lambda number: f"h{number}")  # so that h10 comes before h9


@st.composite
def hosts(draw: st.DrawFn, name: str | None = None) -> Host:
    """Few sizes, so that many hosts are equal and ties abound."""
    cores = draw(st.sampled_from((2, 4, 8)))
    gpus = draw(st.sampled_from((0, 0, 2)))
    used_cores = draw(st.sampled_from((0, 0, 1, cores, cores + 3)))  # over-full ones too
    return host(
        name or draw(names),
        cores=cores,
        memory_gib=cores * draw(st.sampled_from((1, 2))),
        disk_gib=draw(st.sampled_from((0, 10, 30))),
        gpus=gpus,
        vms=draw(st.sampled_from((1, 3, 10))),
        custom=draw(st.sampled_from(({}, {}, {"licences": 2}))),
        used={"cpu": used_cores * 1000, "disk": draw(st.sampled_from((0, 0, 5)))},
        instances=draw(st.integers(0, 2)),
        pool=draw(st.sampled_from(POOLS)),
        zone=draw(st.sampled_from(ZONES)),
        labels=draw(labels),
        dedicated=draw(st.booleans()),
        cordoned=draw(st.sampled_from((False, False, False, True))),
        missing=draw(st.sampled_from((False, False, False, False, True))),
        carries_virtflow=draw(st.sampled_from((False, False, False, False, True))),
    )


@st.composite
def shapes(draw: st.DrawFn, strategies: tuple[str, ...] = (*KEYED, "round_robin", "random")) -> Shape:
    strategy = draw(st.sampled_from(strategies))
    weights = {"cpu": 0.7, "disk": 0.3} if strategy == "hybrid" and draw(st.booleans()) else {}
    return shape(
        cores=draw(st.sampled_from((0.5, 1, 2, 5))),
        memory_gib=draw(st.sampled_from((0.5, 1, 3))),
        disk_gib=draw(st.sampled_from((0, 0, 5))),
        gpus=draw(st.sampled_from((0, 0, 0, 1))),
        custom=draw(st.sampled_from(({}, {}, {}, {"licences": 1}, {"unheard-of": 1}))),
        pool=draw(st.sampled_from((*POOLS, "a", "a", "nowhere"))),
        zone=draw(st.sampled_from(("", "", *ZONES))),
        labels=draw(st.one_of(st.just({}), st.just({}), labels)),
        dedicated=draw(st.sampled_from(Dedicated)),
        strategy=strategy,
        weights=weights,
    )


def fleets(min_size: int = 0, max_size: int = 40) -> st.SearchStrategy[list[Host]]:
    """Hosts with distinct names, in any order."""
    return st.lists(hosts(), min_size=min_size, max_size=max_size, unique_by=lambda one: one.name)
