"""Many seeds beside each other, and what came out, in words and as JSON."""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from virtflow.testing.simulation.board import Sights
from virtflow.testing.simulation.seeds import KEPT, seeds_from
from virtflow.testing.simulation.world import Result, run_seed

FAILURES_SHOWN_MAX = 5
#: steps of which there are many, and which say little
_QUIET = (" lease_by_name", " renew_lease", " event_range", " alive")


def main(argv: Sequence[str]) -> int:
    arguments = _arguments(argv)
    if arguments.seed is not None:
        return _replay(arguments.seed, whole=arguments.whole)
    try:
        seeds: Sequence[int] = KEPT if arguments.seeds == "kept" else seeds_from(arguments.seeds)
    except ValueError:
        print(
            f"simulate: {arguments.seeds!r} is neither a number, nor a range like 17..20, nor `kept`", file=sys.stderr
        )
        return 2
    began_s = time.monotonic()
    sights, failed, steps, world_s, calls = Sights(), list[Result](), 0, 0.0, 0
    for result in run_many(seeds, workers=arguments.workers):
        sights.add(result.seen)
        steps, world_s, calls = steps + result.steps, world_s + result.world_s, calls + result.calls
        if result.violations:
            failed.append(result)
            if len(failed) <= FAILURES_SHOWN_MAX:
                print("\n".join(_failure(result)), flush=True)
    took_s = time.monotonic() - began_s
    print("\n".join(sights.lines()))
    print(
        f"{len(seeds)} seeds in {took_s:.1f} s ({len(seeds) / took_s:.1f} seeds/s, {steps / took_s:,.0f} steps/s): "
        f"{steps:,} steps, {calls:,} calls, {world_s / 3600:.1f} simulated hours, {len(failed)} seeds failed"
    )
    if not sights.is_enough:
        print(f"never seen: {', '.join(sights.missing)}", file=sys.stderr)
    if arguments.json:
        _write(arguments.json, seeds, sights, failed, took_s=took_s, steps=steps, world_s=world_s)
    return 1 if failed or not sights.is_enough else 0


def run_many(seeds: Sequence[int], *, workers: int) -> Iterator[Result]:
    """In the order in which they end."""
    if workers <= 1 or len(seeds) == 1:
        yield from map(run_seed, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=max(1, min(20, len(seeds) // (4 * workers))))


def _replay(seed: int, *, whole: bool) -> int:
    result = run_seed(seed, keep_trace=True)
    lines = result.lines if whole else readable(result.lines)
    print("\n".join(lines))
    print("\n".join(_failure(result)) if result.violations else f"seed {seed}: everything held ({result.hash})")
    return 1 if result.violations else 0


def readable(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if not line.endswith(_QUIET)]


def _failure(result: Result) -> list[str]:
    return [
        f"seed {result.seed} failed ({result.hash}); to see it again: make simulate SEED={result.seed}",
        *(f"  {violation}" for violation in result.violations[:10]),
        *(["  …"] if len(result.violations) > 10 else []),
    ]


def _write(
    file: Path, seeds: Sequence[int], sights: Sights, failed: list[Result], *, took_s: float, steps: int, world_s: float
) -> None:
    report = {
        "seeds": len(seeds),
        "steps": steps,
        "simulated_s": world_s,
        "took_s": took_s,
        "failed": {result.seed: result.violations for result in failed},
        "sights": {what: sights.counts[what] for what in sights.expected},
    }
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report)))


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulate", description="virtflow in a simulated data centre")
    parser.add_argument("seeds", nargs="?", default="200", help="how many; a range like 17..20; or `kept`")
    parser.add_argument("--seed", type=int, help="one, with its trace")
    parser.add_argument("--whole", action="store_true", help="with --seed: every line of the trace")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="write a report there, too")
    return parser.parse_args(argv)
