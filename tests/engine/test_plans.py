"""Golden plans: the same fleets and requests give the same plans, byte for byte, in every version to come.

After a change that is meant to change plans: `python -m tests.engine.test_plans` writes them anew; read the difference.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from virtflow.engine import strategies
from virtflow.engine.decide import decide
from virtflow.model.plan import Placement, Request
from virtflow.model.shape import Dedicated
from virtflow.testing.builders import fleet, host, pool, shape

GOLDEN = Path(__file__).parent / "plans.json"


def plans() -> dict[str, Any]:
    """For each strategy: a fleet of 30 uneven hosts, 40 requests of five shapes, and where they went."""
    some = [
        host(
            f"bm-{number * 7 % 30:03}",
            cores=8 + 8 * (number % 3),
            memory_gib=32 << number % 3,
            disk_gib=500 * (number % 4),
            gpus=number % 5 // 4,
            vms=6,
            used={"cpu": 500 * (number % 6), "memory": 1000 * (number % 4)},
            instances=number % 3,
            pool="gpu" if number % 5 == 4 else "default",
            zone=f"z{number % 2}",
            labels={"ssd": "yes"} if number % 4 else {},
            dedicated=number % 6 == 0,
            cordoned=number == 11,
        )
        for number in range(30)
    ]
    found = {}
    for name in strategies.names():
        shapes = [
            shape(cores=2, memory_gib=4, disk_gib=20),
            shape(cores=1, memory_gib=8, labels={"ssd": "yes"}),
            shape(cores=4, memory_gib=4, zone="z1", dedicated=Dedicated.FORBIDDEN),
            shape(cores=1, memory_gib=1, gpus=1, pool="gpu"),
            shape(cores=16, memory_gib=100, dedicated=Dedicated.REQUIRED),
        ]
        asked = [
            Request(number.to_bytes(16, "big"), shapes[number % 5], b"g" if 10 <= number < 13 else None)
            for number in range(40)
        ]
        plan = decide(fleet(some, default_strategy=name, pools=[pool("gpu")]), asked)
        found[name] = {
            "placed": [
                f"{one.host} {one.score:.9f}" if isinstance(one, Placement) else "refused" for one in plan.outcomes
            ],
            "cursors": dict(plan.cursors),
        }
    return found


def encoded(found: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"


@pytest.mark.parametrize("name", strategies.names())
def test_plans_are_what_they_always_were(name: str) -> None:
    assert plans()[name] == msgspec.json.decode(GOLDEN.read_bytes())[name]


def test_plans_are_written_byte_for_byte() -> None:
    assert encoded(plans()) == GOLDEN.read_bytes()


if __name__ == "__main__":
    GOLDEN.write_bytes(encoded(plans()))
