"""The engine alone: how long one decision takes, how that grows, and what a plain loop would take in the same run.

`python -m bench.engine [--quick]` prints a table and one line of JSON. Times are processor times, the best of a few
tries: the engine waits for nothing, and what disturbs it only ever makes a decision slower.
"""

import argparse
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from virtflow.engine.decide import decide, warm_up
from virtflow.engine.fleet import Fleet
from virtflow.model.host import Host
from virtflow.model.plan import Placement, Request
from virtflow.model.shape import Shape
from virtflow.testing.builders import host, requests, shape

SIZES = (100, 1_000, 10_000, 100_000)
SIZES_QUICK = (100, 1_000, 10_000)
#: where one size must stand for all
HOSTS = 10_000
BATCH = 10_000
LIVE_SHAPES = (1, 10, 100, 1_000)
#: of which the best counts
TRIES = 5
SPREAD, PACK = "least_loaded", "best_fit"
WANTED = shape(cores=2, memory_gib=4, disk_gib=10)

#: way of deciding -> number (of hosts or shapes) -> microseconds
Times = dict[str, dict[str, float]]


def measure(*, quick: bool) -> dict[str, Any]:
    """Everything, ready for JSON. Numbers of hosts and shapes are texts, as JSON would have them."""
    sizes = SIZES_QUICK if quick else SIZES
    compiled = [True] if warm_up() else []
    growth = measure_growth(sizes)
    batches = {
        f"{strategy}{', compiled' * way}": measure_batches(sizes, strategy, compiled=way)
        for strategy in (SPREAD, PACK)
        for way in (False, *compiled)
    }
    live = {
        f"{strategy}{', compiled' * way}": measure_live_shapes(strategy, compiled=way, quick=quick)
        for strategy in (SPREAD, PACK)
        for way in (False, *compiled)
    }
    return {
        "growth": growth,
        "growth_exponents": {way: exponent(times) for way, times in growth.items()},
        "batches": batches,
        "live_shapes": live,
        "live_shapes_exponents": {way: exponent(times) for way, times in live.items()},
        "load_s": measure_load(sizes),
        "memory_bytes_per_host": measure_memory(HOSTS),
        "compiled": bool(compiled),
    }


# ── the parts ─────────────────────────────────────────────────────────────────────────────────────


def measure_growth(sizes: Sequence[int]) -> Times:
    """The mean of single decisions, one call each, beside a loop over dictionaries and a scan of all arrays."""
    for size in sizes[:2]:
        _check_same(list(hosts(size)))
    ways = {"virtflow": _decision_us, "scan of arrays": _scan_us, "loop over dicts": _loop_us}
    return {way: {str(size): one_us(list(hosts(size))) for size in sizes} for way, one_us in ways.items()}


def _decision_us(some: list[Host]) -> float:
    made, count = fleet_of(some, compiled=False), min(2_000, 5 * len(some))
    decide(made, requests(1, WANTED))

    def work(asked: list[Request]) -> None:
        for one in asked:
            decide(made, [one])

    return best_of(work, _tries(count), count)


def _scan_us(some: list[Host]) -> float:
    scan, count = Scan(some), min(200, max(3, 200_000 // len(some)))
    return best_of(lambda times: [scan.place() for _ in range(times)], [count] * TRIES, count)


def _loop_us(some: list[Host]) -> float:
    loop, count = Loop(some), max(2, 20_000 // len(some))
    return best_of(lambda times: [loop.place() for _ in range(times)], [count] * TRIES, count)


def measure_batches(sizes: Sequence[int], strategy: str, *, compiled: bool) -> dict[str, float]:
    """Decisions per second in a batch of one shape."""
    return {str(size): 1e6 / _batch_us(size, strategy, compiled=compiled) for size in sizes}


def _batch_us(size: int, strategy: str, *, compiled: bool) -> float:
    made, count = fleet_of(hosts(size), strategy, compiled=compiled), min(BATCH, 5 * size)
    decide(made, requests(1, WANTED))
    return best_of(lambda asked: _placed(decide(made, asked).outcomes), _tries(count), count)


def measure_live_shapes(strategy: str, *, compiled: bool, quick: bool) -> dict[str, float]:
    """Microseconds for a decision when so many shapes are used in turn, no two neighbours alike."""
    least = 1_000 if quick else 5_000
    return {str(count): _live_us(count, max(count, least), strategy, compiled=compiled) for count in LIVE_SHAPES}


def _live_us(live: int, count: int, strategy: str, *, compiled: bool) -> float:
    made, some = fleet_of(hosts(HOSTS, uneven=True), strategy, compiled=compiled), list(shapes(live))
    asked = [Request(at.to_bytes(16, "big"), some[at % live]) for at in range(count)]
    decide(made, asked[: max(live, 20)])
    return best_of(lambda _: _placed(decide(made, asked).outcomes), range(TRIES), count)


def measure_load(sizes: Sequence[int]) -> dict[str, float]:
    """Seconds to put so many hosts into an empty fleet."""
    return {str(size): best_of(fleet_of, [list(hosts(size))] * TRIES, 1) / 1e6 for size in sizes}


def measure_memory(size: int) -> float:
    """Bytes for each host, names included, with one shape in use."""
    gc.collect()
    tracemalloc.start()
    made = fleet_of(hosts(size), compiled=False)
    decide(made, requests(1, WANTED))
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / len(made)


# ── what is measured on ───────────────────────────────────────────────────────────────────────────


def hosts(count: int, *, uneven: bool = False) -> Iterator[Host]:
    """Room for 32 of what is wanted on each. Uneven ones differ in size and in what is taken already."""
    for number in range(count):
        yield host(
            f"bm-{number:06}",
            id=number + 1,
            cores=64 + 32 * (number % 4) * uneven,
            memory_gib=256 + 64 * (number % 5) * uneven,
            disk_gib=2_000,
            used={"cpu": number * 7_919 % 16_000, "memory": number * 104_729 % 65_536} if uneven else {},
            vms=1_000,
        )


def shapes(count: int) -> Iterator[Shape]:
    for number in range(count):
        yield shape(
            cores=0.25 * (1 + number % 16), memory_gib=0.25 * (1 + number // 16 % 16), disk_gib=1 + number // 256
        )


def fleet_of(some: Any, strategy: str = SPREAD, *, compiled: bool | None = None) -> Fleet:
    made = Fleet(strategy, compiled=compiled)
    made.put_hosts(some)
    return made


class Loop:
    """What one writes first: a dictionary for each host, and a loop over them."""

    def __init__(self, some: Sequence[Host]) -> None:
        self.hosts = [{"name": one.name, "total": dict(one.total), "free": dict(one.free), "n": 0} for one in some]

    def place(self) -> str:
        wanted, best_host, best_score = WANTED.resources, None, (9.9, 0)
        for one in self.hosts:
            free, total = one["free"], one["total"]
            if all(free[name] >= amount for name, amount in wanted.items()):
                busy = [1 - free[name] / total[name] for name in ("cpu", "memory", "disk")]
                score = (round(0.4 * busy[0] + 0.4 * busy[1] + 0.2 * busy[2], 9), one["n"])
                if score < best_score:
                    best_host, best_score = one, score
        assert best_host is not None
        for name, amount in wanted.items():
            best_host["free"][name] -= amount
        best_host["n"] += 1
        return str(best_host["name"])


class Scan:
    """What one writes next: an array for each dimension, and one look at all of them."""

    def __init__(self, some: Sequence[Host]) -> None:
        self.names = [one.name for one in some]
        self.total = {name: np.array([one.total[name] for one in some]) for name in WANTED.resources}
        self.free = {name: np.array([one.free[name] for one in some]) for name in WANTED.resources}

    def place(self) -> str:
        free, total, wanted = self.free, self.total, WANTED.resources
        fits = np.logical_and.reduce([free[name] >= amount for name, amount in wanted.items()])
        busy = [1 - free[name] / total[name] for name in ("cpu", "memory", "disk")]
        score = np.round(0.4 * busy[0] + 0.4 * busy[1] + 0.2 * busy[2], 9)
        row = int(np.argmin(np.where(fits, score, np.inf)))
        for name, amount in wanted.items():
            free[name][row] -= amount
        return self.names[row]


def _check_same(some: list[Host]) -> None:
    """A plain way that chooses other hosts would be no measure."""
    made, scan, loop = fleet_of(some), Scan(some), Loop(some)
    for asked in requests(300, WANTED):
        chosen = {decide(made, [asked]).outcomes[0].host, scan.place(), loop.place()}  # type: ignore[union-attr]
        assert len(chosen) == 1, chosen


# ── time ──────────────────────────────────────────────────────────────────────────────────────────


def best_of(work: Callable[[Any], object], tries: Sequence[Any], count: int) -> float:
    """Microseconds for each of `count`."""
    taken = []
    for one in tries:
        started_s = time.process_time()
        work(one)
        taken.append(time.process_time() - started_s)
    return min(taken) / count * 1e6


def _tries(count: int) -> list[list[Request]]:
    return [requests(count, WANTED, start=number * count) for number in range(TRIES)]


def exponent(times: dict[str, float]) -> float:
    """How the time grows with the number, fitted over all of them: 0 = not at all, 1 = in proportion."""
    numbers = np.log10([int(number) for number in times])
    return round(float(np.polyfit(numbers, np.log10(list(times.values())), 1)[0]), 3)


def _placed(outcomes: Sequence[object]) -> None:
    """A refusal is quicker than a placement, so it may not be among what is measured."""
    assert isinstance(outcomes[-1], Placement)


# ── by itself ─────────────────────────────────────────────────────────────────────────────────────


def lines(found: dict[str, Any]) -> Iterator[str]:
    sizes = list(found["growth"]["virtflow"])
    yield _line("one decision, µs", [f"{int(size):,} hosts" for size in sizes], "exponent")
    for way, times in found["growth"].items():
        yield _line(way, [f"{time:,.1f}" for time in times.values()], f"{found['growth_exponents'][way]:.2f}")
        if way != "virtflow":
            ratios = [times[size] / found["growth"]["virtflow"][size] for size in sizes]
            yield _line("  times slower", [f"{ratio:,.1f}" for ratio in ratios])
    yield ""
    yield _line("batch of one shape, decisions/s", [f"{int(size):,} hosts" for size in sizes])
    for way, rates in found["batches"].items():
        yield _line(way, [f"{rate:,.0f}" for rate in rates.values()])
    yield ""
    yield _line(f"{HOSTS:,} hosts, µs per decision", [f"{count:,} shapes" for count in LIVE_SHAPES], "exponent")
    for way, times in found["live_shapes"].items():
        yield _line(way, [f"{time:,.1f}" for time in times.values()], f"{found['live_shapes_exponents'][way]:.2f}")
    yield ""
    yield _line("hosts put at once, ms", [f"{seconds * 1000:,.0f}" for seconds in found["load_s"].values()])
    yield f"memory for each of {HOSTS:,} hosts: {found['memory_bytes_per_host']:.0f} bytes"
    if not found["compiled"]:
        yield "numba is not installed: nothing compiled was measured"


def _line(name: str, cells: Sequence[str], last: str = "") -> str:
    return f"{name:<32}" + "".join(f"{cell:>15}" for cell in (*cells, last)).rstrip()


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.engine", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 10,000 hosts, and fewer decisions")
    found = measure(quick=parser.parse_args(argv).quick)
    print("\n".join(lines(found)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
