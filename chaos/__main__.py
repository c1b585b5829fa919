"""`python -m chaos`: real processes under load, harmed round after round, and every history judged.

Ends with a table and one line of JSON. Exit code 1 when anything was lost, doubled, overcommitted or answered wrongly;
a goal of time that is missed is a figure. With CHAOS_HOURS=n all is repeated in new worlds until the time is over.
"""

import argparse
import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from chaos import report
from chaos.load import CLIENTS
from chaos.nemeses import NEMESES, Nemesis
from chaos.run import Outcome, run
from virtflow.testing import postgres, rabbitmq

HOURS = "CHAOS_HOURS"


def main(argv: Sequence[str]) -> int:
    options = _options(argv)
    if options.list:
        print("\n".join(f"{one.name:<17} {one.goal:<4} {one.does}" for one in NEMESES.values()))
        return 0
    began_s = time.monotonic()
    try:
        _look_for_programs(options.only)
        outcomes = asyncio.run(_run_all(options))
    except FileNotFoundError as missing:
        _say(str(missing))
        return 2
    except KeyboardInterrupt:
        return 130
    for words in (words for outcome in outcomes for words in outcome.judgement.words):
        _say(words)
    for missed in (missed for outcome in outcomes for missed in report.misses(outcome)):
        _say(f"missed: {missed}")
    for note in (note for outcome in outcomes for note in report.notes(outcome)):
        _say(note)
    took_s = time.monotonic() - began_s
    print(f"\n{report.table(outcomes)}\n\n{took_s:.0f} s, logs and histories: {options.work}")
    document = {"seconds": round(took_s, 1), "lease_s": options.lease, "nemeses": report.documents(outcomes)}
    if options.out:
        options.out.write_text(json.dumps(document, indent=2) + "\n")
    print(json.dumps(document))
    return 1 if any(outcome.violations for outcome in outcomes) else 0


def _look_for_programs(nemeses: Sequence[Nemesis]) -> None:
    """FileNotFoundError says what to install."""
    postgres.find_program("postgres")
    if any(nemesis.scene.brokered for nemesis in nemeses):
        rabbitmq.find_program("rabbitmq-server")


async def _run_all(options: argparse.Namespace) -> list[Outcome]:
    """Lanes beside each other, each with its own world; what is started first is what takes longest."""
    found: dict[str, Outcome] = {}
    jobs = _jobs(options)

    async def lane() -> None:
        for number, nemesis in jobs:
            rounds = options.rounds or nemesis.rounds
            _say(f"{nemesis.name}: {rounds} rounds begin; {nemesis.does}")
            outcome = await run(
                nemesis, rounds=rounds, folder=options.work / f"{number:03}-{nemesis.name}", lease_s=options.lease,
                clients=options.clients, seed=options.seed + number, say=_say,
            )  # fmt: skip
            if nemesis.name in found:
                found[nemesis.name].add(outcome)
            else:
                found[nemesis.name] = outcome

    async with asyncio.TaskGroup() as group:
        for _ in range(options.lanes):
            group.create_task(lane())
    return list(found.values())


def _jobs(options: argparse.Namespace) -> Iterator[tuple[int, Nemesis]]:
    """Each nemesis once; with hours to fill, again and again until they are over."""
    end_s = time.monotonic() + options.hours * 3600
    numbers = itertools.count(1)
    yield from zip(numbers, options.only, strict=False)
    while time.monotonic() < end_s:
        for number, nemesis in zip(numbers, options.only, strict=False):
            if time.monotonic() >= end_s:
                return
            yield number, nemesis


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--only", type=_nemeses, default=list(NEMESES.values()), metavar="NAMES", help="commas between")
    parser.add_argument("--rounds", type=int, help="of each nemesis")
    parser.add_argument("--lanes", type=int, default=1, help="so many worlds at once")
    parser.add_argument("--lease", type=float, default=2.0, help="lease_s of the schedulers")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file for the JSON document")
    parser.add_argument("--work", type=Path, help="a folder for logs and histories")
    parser.add_argument("--list", action="store_true", help="name the nemeses")
    parser.add_argument("--hours", type=float, default=float(os.environ.get(HOURS) or 0), help=f"also {HOURS}")
    options = parser.parse_args(argv)
    options.work = options.work or Path(tempfile.mkdtemp(prefix="virtflow-chaos-"))
    return options


def _nemeses(text: str) -> list[Nemesis]:
    unknown = [name for name in text.split(",") if name not in NEMESES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no nemesis {', '.join(unknown)}; there are {', '.join(NEMESES)}")
    return [NEMESES[name] for name in text.split(",")]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
