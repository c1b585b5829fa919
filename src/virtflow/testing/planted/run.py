"""The board: a line for each bug, and who found it."""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from virtflow.testing.planted.board import Finding, alive, look_for_all
from virtflow.testing.planted.bugs import BUGS

SEEDS = 60
_WIDTH = 27


def main(argv: Sequence[str]) -> int:
    arguments = _arguments(argv)
    chosen = [bug for bug in BUGS if not arguments.bugs or bug.name in arguments.bugs]
    unknown = set(arguments.bugs) - {bug.name for bug in BUGS}
    if unknown:
        print(f"planted: no bug is called {sorted(unknown)[0]!r}; ARGS=--list shows them", file=sys.stderr)
        return 2
    if arguments.list:
        print("\n".join(f"{bug.name:<{_WIDTH}} {bug.text}" for bug in chosen))
        return 0
    began_s = time.monotonic()
    findings = []
    for finding in look_for_all(chosen, seeds=arguments.seeds, workers=arguments.workers):
        findings.append(finding)
        print(_line(finding), flush=True)
    left = alive(findings)
    print(_sum(findings, left, took_s=time.monotonic() - began_s))
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(findings)))
    return 1 if left else 0


def _line(finding: Finding) -> str:
    off = f"  without {', '.join(finding.off)}" if finding.off else ""
    if not finding.found:
        seen = f"not in {finding.seeds} seeds" if finding.seeds else f"not by {finding.by}"
    elif finding.seeds:
        seen = f"seed {finding.seeds}: {finding.first}"
    else:
        seen = finding.by
    return f"{'found' if finding.found else '-----'}  {finding.bug:<{_WIDTH}}{off}  {seen[:150]}"


def _sum(findings: Sequence[Finding], left: Sequence[str], *, took_s: float) -> str:
    bugs = {finding.bug for finding in findings}
    alone = {finding.bug for finding in findings if finding.found and not finding.off}
    seeds = [finding.seeds for finding in findings if finding.found and finding.seeds]
    median = f"; {statistics.median(seeds):.0f} seeds for the median bug, {max(seeds)} for the hardest" if seeds else ""
    missing = f"\nNOT FOUND: {', '.join(left)}" if left else ""
    return (
        f"{len(bugs) - len(left)} of {len(bugs)} planted bugs found in {took_s:.0f} s, {len(alone)} of them alone, "
        f"the others with the guards off that hide them{median}{missing}"
    )


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="planted", description="would anybody notice?")
    parser.add_argument("bugs", nargs="*", help="by name; all without")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="so many are tried for each")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="write the board there, too")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    return parser.parse_args(argv)
