"""`python -m bench`: everything that can be measured on this machine, beside the goals.

Figures of one run belong together: the machine and its disk drift, so compare what stands in one table. Ends with one
line of JSON. Exit code 1 when a figure is wrong (what was acknowledged is not what is there), 0 otherwise: a goal that
is missed is a figure, too.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import figures as parts
from bench import http, machine, postgres, report
from bench.machine import Folder
from bench.report import Figure

SECTIONS = ("engine", "store", "http", "restart", "memory")
#: measured when asked for
MORE_SECTIONS = ("failover", "fsck", "queue", "relay", "tracing", "webhooks")


@dataclass(slots=True, kw_only=True)
class Run:
    """What was asked for, and what came out so far."""

    quick: bool
    databases: list[str]
    folders: list[Folder]
    figures: list[Figure] = field(default_factory=list)
    #: by section, as it was measured
    details: dict[str, Any] = field(default_factory=dict)

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> int:
    options = _options(argv)
    started_s = time.perf_counter()
    described = machine.describe()
    with machine.work_folders(options.work) as folders:
        described["fsync"] = {folder.name: machine.fsync_times(folder.path)._asdict() for folder in folders}
        print("\n".join(report.machine_lines(described)), flush=True)
        run = Run(quick=options.quick, databases=_databases(options.database), folders=folders)
        exit_code = _measure(run, options.parts or options.only)
    document = {
        "machine": described,
        "quick": options.quick,
        "seconds": round(time.perf_counter() - started_s, 1),
        "figures": [figure.document() for figure in run.figures],
    }
    print("\n" + report.table(run.figures) + f"\n\n{document['seconds']} s")
    for path in report.write(options.out, document | run.details, run.figures) if options.out else []:
        print(f"written: {path}")
    print(json.dumps(document))
    return exit_code


def _measure(run: Run, only: Sequence[str]) -> int:
    measure: Mapping[str, Callable[[], parts.Found]] = {
        "engine": lambda: parts.measure_engine(quick=run.quick),
        "store": lambda: parts.measure_store(run.databases, run.folders, quick=run.quick),
        "http": lambda: parts.measure_http(run.databases, run.folders, quick=run.quick, say=run.say),
        "restart": lambda: parts.measure_restart(run.databases[0], run.folders[0], quick=run.quick),
        "failover": lambda: parts.measure_failover(run.folders[0], quick=run.quick),
        "fsck": lambda: parts.measure_fsck(run.databases, run.folders[0], quick=run.quick),
        "relay": lambda: parts.measure_relay(run.databases, run.folders[0], quick=run.quick),
        "tracing": lambda: parts.measure_tracing(run.folders[-1], quick=run.quick),
        "queue": lambda: parts.measure_queue(run.folders[0], quick=run.quick),
        "webhooks": lambda: parts.measure_webhooks(run.databases, run.folders[0], quick=run.quick),
        "memory": lambda: parts.measure_memory(run.databases[0], run.folders[0], quick=run.quick),
    }
    for name in only:
        run.say(f"measuring: {name}")
        try:
            figures, details = measure[name]()
        except http.WrongCount as wrong:
            print(f"WRONG: {wrong}", file=sys.stderr)
            return 1
        run.figures += figures
        run.details |= details
    return 0


def _databases(asked: str) -> list[str]:
    if asked != "both":
        return [asked]
    if not postgres.is_here():
        print("no PostgreSQL on this machine: only SQLite is measured", file=sys.stderr)
        return [http.SQLITE]
    return [http.SQLITE, http.POSTGRESQL]


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="?", type=_sections, help=f"some of {','.join(SECTIONS + MORE_SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="smaller numbers, under 90 s; shows the order of things")
    parser.add_argument("--only", type=_sections, default=list(SECTIONS), metavar="PARTS", help="the same")
    parser.add_argument("--database", choices=(http.SQLITE, http.POSTGRESQL, "both"), default="both")
    parser.add_argument("--out", type=Path, help="a folder for bench.json, bench.md and bench.svg")
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk to measure on"
    )
    return parser.parse_args(argv)


def _sections(text: str) -> list[str]:
    names = text.split(",")
    known = SECTIONS + MORE_SECTIONS
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"no part {', '.join(unknown)}; there are {', '.join(known)}")
    return [name for name in known if name in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
