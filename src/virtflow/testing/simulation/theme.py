"""What a seed is about: things that go wrong together only when much of them comes at once."""

import dataclasses
from collections.abc import Iterable, Mapping
from random import Random
from types import MappingProxyType

#: each theme comes in this share of the seeds, whatever the others do
SHARE = 0.3
#: a client's rest between two calls where no theme says otherwise
THINK_S = 0.15


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    text: str
    #: faults that come surely, and their rates
    faults: Mapping[str, tuple[float, float]]
    processes_min: int = 1
    processes_max: int = 4
    hosts_max: int = 6
    clients_min: int = 1
    #: how long a client rests between two calls, on average
    think_s: float = THINK_S
    #: what clients do most, in the order of their verbs, and how large they make hosts
    likes: tuple[float, ...] = ()
    sizes: tuple[int, ...] = ()
    #: peace does not end it: the product has to live with it
    lasts: bool = False


THEMES: Mapping[str, Theme] = MappingProxyType(
    {
        "narrow": Theme(
            text="one or two hosts, whose room comes and goes, and who decides hears of it late",
            faults={"news lost": (0.9, 1.0)},
            processes_min=3,
            hosts_max=2,
            likes=(5.0, 1.0, 2.0, 0.5, 0.5, 6.0),
            sizes=(1, 8),
        ),
        "deaf": Theme(
            text="no news of the database ever arrives",
            faults={"news lost": (1.0, 1.0)},
            processes_min=2,
            lasts=True,
        ),
        "hand-overs": Theme(
            text="leaders stop in the middle of what they write, and wake up under another",
            faults={
                "leader stopped in a transaction": (0.03, 0.15),
                "leader stopped for a while": (0.2, 0.6),
                "database call late": (0.01, 0.05),
            },
            processes_min=2,
            clients_min=4,
            think_s=0.02,
        ),
        "doubt": Theme(
            text="answers to commits are lost, and sessions end, of leaders who come and go",
            faults={
                "answer to a commit lost": (0.1, 0.5),
                "database sessions ended": (0.2, 1.0),
                "leader stopped for a while": (0.1, 0.5),
                "database call late": (0.005, 0.05),
            },
        ),
        "crowd": Theme(
            text="many clients want everything at once of few processes, which lose their lead meanwhile",
            faults={
                "database call late": (0.03, 0.15),
                "database sessions ended": (0.3, 1.0),
                "answer to a commit lost": (0.05, 0.3),
            },
            processes_max=2,
            clients_min=5,
            think_s=0.01,
            likes=(4.0, 0.5, 2.0, 0.5, 0.5, 3.0),
        ),
    }
)


def draw(chance: Random) -> frozenset[str]:
    return frozenset(name for name in THEMES if chance.random() < SHARE)


def faults_of(themes: Iterable[str]) -> dict[str, tuple[float, float]]:
    return {fault: rates for name in sorted(themes) for fault, rates in THEMES[name].faults.items()}


def lasting(themes: Iterable[str]) -> frozenset[str]:
    return frozenset(fault for name in themes if THEMES[name].lasts for fault in THEMES[name].faults)
