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


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A bug, alone or with the guards off that would catch its effects."""

    bug: str
    off: tuple[str, ...] = ()


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


def cases(bugs: Iterable[Bug] = BUGS) -> list[Case]:
    found = []
    for bug in bugs:
        found.append(Case(bug=bug.name))
        if bug.hidden_by:
            found.append(Case(bug=bug.name, off=bug.hidden_by))
    return found


def look_for(case: Case, *, seeds: int) -> Finding:
    bug = bug_named(case.bug)
    if bug.found_by != SIMULATION:
        return _by_test(bug)
    with all_of(bug.plant, *(GUARDS[name] for name in case.off)):
        for number in range(1, seeds + 1):
            violations = run_seed(number).violations
            if violations:
                return _finding(bug, case, found=True, seeds=number, first=violations[0].splitlines()[0])
    return _finding(bug, case, found=False, seeds=seeds)


def look_for_all(chosen: Sequence[Case], *, seeds: int, workers: int) -> Iterator[Finding]:
    """In the order of the cases."""
    if workers <= 1:
        yield from (look_for(case, seeds=seeds) for case in chosen)
        return
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
        yield from pool.imap(_Looking(seeds), chosen)


class _Looking:
    """A function that another process can be told of."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds

    def __call__(self, case: Case) -> Finding:
        return look_for(case, seeds=self._seeds)


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
    done = subprocess.run(
        command, env={**os.environ, VARIABLE: bug.name}, capture_output=True, text=True, timeout=TEST_S_MAX, check=False
    )
    first = next((line for line in done.stdout.splitlines() if line.startswith("FAILED")), "")
    return msgspec.structs.replace(
        _finding(bug, Case(bug=bug.name), found=done.returncode == _TESTS_FAILED, seeds=0, first=first), by=bug.found_by
    )


def _finding(bug: Bug, case: Case, *, found: bool, seeds: int, first: str = "") -> Finding:
    return Finding(
        bug=bug.name, text=bug.text, off=case.off, found=found, by=SIMULATION, seeds=seeds, first=first,
        was_in=bug.was_in,
    )  # fmt: skip
