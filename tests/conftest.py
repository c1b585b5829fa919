"""What every test gets: Hypothesis profiles, and programs of the system, whose absence is said aloud."""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.databases", "tests.brokers"]

ROOT = Path(__file__).parent.parent
NOT_RUN = "service missing: "

_slow_machine = [HealthCheck.too_slow]  # two loaded cores are slow without any fault of the data
settings.register_profile("fast", max_examples=50, deadline=None, suppress_health_check=_slow_machine)
settings.register_profile("ci", settings.get_profile("fast"), max_examples=100, derandomize=True, print_blob=True)
settings.register_profile("deep", settings.get_profile("fast"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "fast"))


def find_program(program: str) -> Path | None:
    """Where a program is, also outside of PATH: where Debian keeps a PostgreSQL server, and where we keep our own."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda home: float(home.parent.name), reverse=True)
    elsewhere = [*homes, ROOT / ".tools" / program]
    found = shutil.which(program) or shutil.which(program, path=os.pathsep.join(map(str, elsewhere)))
    return Path(found).resolve() if found else None


def read_services() -> dict[str, str]:
    lines = (ROOT / "tools/services.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: program for name, _package, program in rows}


# a shell gives its background jobs a deaf ear for Ctrl-C, and every program that a test starts inherits it
signal.signal(signal.SIGINT, signal.default_int_handler)

SERVICES = read_services()
PROGRAMS = {name: path for name, program in SERVICES.items() if (path := find_program(program))}


@pytest.fixture(scope="session")
def programs() -> Mapping[str, Path]:
    """The programs of the system by service name: `programs["postgresql"].parent / "initdb"`."""
    return PROGRAMS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("service"):
            for name in mark.args:
                if name not in SERVICES:  # a typo would otherwise skip the test for ever
                    raise pytest.UsageError(f"{item.nodeid}: service {name!r} is not in tools/services.txt")
                if name not in PROGRAMS:
                    item.add_marker(pytest.mark.skip(reason=NOT_RUN + name))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what did not run. Read from the reports, since under xdist only they reach this process."""
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    missing = Counter(reason.partition(NOT_RUN)[2] for reason in reasons if NOT_RUN in reason)
    if missing:
        terminalreporter.section("NOT RUN", sep="!", red=True, bold=True)
    for name, count in sorted(missing.items()):
        line = f"NOT RUN: {name}, because `{SERVICES[name]}` is not on this machine. Tests left out: {count}"
        terminalreporter.write_line(line, red=True, bold=True)
