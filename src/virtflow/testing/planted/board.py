"""Plants each bug, lets those look for it who should find it, and says who did."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from virtflow.testing.planted.bug import SIMULATION, VARIABLE, Bug, all_of
from virtflow.testing.planted.bugs import BUGS
from virtflow.testing.planted.guards import GUARDS
from virtflow.testing.simulation.world import run_seed

TEST_S_MAX = 300.0
_TESTS_FAILED = 1


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    bug: str
    text: str
    off: tuple[str, ...]
    found: bool
    #: the simulation, or a test
    by: str
    #: how many seeds it took, or were tried for nothing
    seeds: int = 0
    #: the first thing that was wrong
    first: str = ""
    was_in: str = ""


def look_for_bug(bug: Bug, *, seeds: int) -> list[Finding]:
    """Each seed alone, and with the guards off that hide it, until it was seen in one of the two ways."""
    if bug.found_by != SIMULATION:
        return [_by_test(bug)]
    ways: list[tuple[str, ...]] = [(), bug.hidden_by] if bug.hidden_by else [()]
    for number in range(1, seeds + 1):
        for off in ways:
            if first := _seen(bug, off, number):
                before = ways[: ways.index(off)]
                findings = [_finding(bug, other, found=False, seeds=number) for other in before]
                return [*findings, _finding(bug, off, found=True, seeds=number, first=first)]
    return [_finding(bug, off, found=False, seeds=seeds) for off in ways]


def _seen(bug: Bug, off: Sequence[str], number: int) -> str:
    """What was wrong first. What is wrong without the bug proves nothing about it."""
    with all_of(bug.plant, *(GUARDS[name] for name in off)):
        violations = run_seed(number).violations
    return violations[0].splitlines()[0] if violations and not run_seed(number).violations else ""


def look_for_all(chosen: Iterable[Bug], *, seeds: int, workers: int) -> Iterator[Finding]:
    """In the order of the bugs. Each in a process of its own: nothing of one is left for the next."""
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
        for findings in pool.imap(_Looking(seeds), [bug.name for bug in chosen]):
            yield from findings


class _Looking:
    """A function that another process can be told of."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds

    def __call__(self, name: str) -> list[Finding]:
        return look_for_bug(bug_named(name), seeds=self._seeds)


def bug_named(name: str) -> Bug:
    return next(bug for bug in BUGS if bug.name == name)


def alive(findings: Iterable[Finding]) -> list[str]:
    """Bugs that nobody found, neither alone nor with the guards off that hide them."""
    found: dict[str, bool] = {}
    for finding in findings:
        found[finding.bug] = found.get(finding.bug, False) or finding.found
    return [name for name, was_found in found.items() if not was_found]


def _by_test(bug: Bug) -> Finding:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "virtflow.testing.planted.plugin", bug.found_by]
    environ = {**os.environ, VARIABLE: bug.name}
    try:
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=TEST_S_MAX, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return _finding(bug, found=False, first=f"no end after {TEST_S_MAX:.0f} s")
    first = next((line for line in done.stdout.splitlines() if line.startswith("FAILED")), "")
    return _finding(bug, found=done.returncode == _TESTS_FAILED, first=first)


def _finding(bug: Bug, off: Sequence[str] = (), *, found: bool, seeds: int = 0, first: str = "") -> Finding:
    return Finding(
        bug=bug.name, text=bug.text, off=tuple(off), found=found, by=bug.found_by, seeds=seeds, first=first,
        was_in=bug.was_in,
    )  # fmt: skip
