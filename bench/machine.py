"""The machine under the figures: cores, memory, versions, and how long its disks take to make a write durable."""

import contextlib
import os
import platform
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

MEMORY_FILE_SYSTEM = Path("/dev/shm")
PACKAGES = ("virtflow", "numpy", "numba", "apsw", "asyncpg", "msgspec", "uvloop", "uvicorn")
BLOCK = 4096
#: a disk is quick in bursts; what counts is what it does when it is asked again and again
FSYNCS_MAX = 2_000


class Fsync(NamedTuple):
    """One append of 4 KiB and its fdatasync, in milliseconds."""

    p50_ms: float
    p99_ms: float
    times: int


class Folder(NamedTuple):
    """Where a database is put: a name for the tables, and the path."""

    name: str
    path: Path


def describe() -> dict[str, object]:
    return {
        "cores": os.cpu_count() or 1,
        "model": _cpu_model(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "versions": {**_versions(), "sqlite": _sqlite_version(), "postgresql": _postgresql_version()},
    }


def fsync_times(folder: Path, *, seconds: float = 1.0) -> Fsync:
    """Appends and syncs for so long, and says how long one took."""
    taken_ms: list[float] = []
    block = b"\0" * BLOCK
    with tempfile.NamedTemporaryFile(dir=folder, prefix="fsync-") as file:
        end_s = time.perf_counter() + seconds
        while len(taken_ms) < FSYNCS_MAX and (now_s := time.perf_counter()) < end_s:
            os.write(file.fileno(), block)
            os.fdatasync(file.fileno())
            taken_ms.append((time.perf_counter() - now_s) * 1000)
    return Fsync(percentile(taken_ms, 50), percentile(taken_ms, 99), len(taken_ms))


def slower(one: Fsync, other: Fsync) -> Fsync:
    """By what is usual, not by the worst."""
    return max(one, other, key=lambda fsync: fsync.p50_ms)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that so many percent of them do not exceed."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0


@contextlib.contextmanager
def work_folders(disk: Path) -> Iterator[list[Folder]]:
    """A folder on the disk and, where there is one, a folder on a memory file system; gone afterwards."""
    with contextlib.ExitStack() as stack:
        places = [("disk", disk)]
        if MEMORY_FILE_SYSTEM.is_dir() and os.access(MEMORY_FILE_SYSTEM, os.W_OK):
            places.append(("memory", MEMORY_FILE_SYSTEM))
        folders = []
        for name, parent in places:
            made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="virtflow-bench-", dir=parent)))
            made.chmod(0o755)  # a database server may run as somebody else
            folders.append(Folder(name, made))
        yield folders


def resident_bytes(pid: int) -> int:
    """What a process holds in memory now for itself; pages of files are the system's, and can be had back."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def processor_s(pid: int) -> float:
    """Processor time of a process so far, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _sqlite_version() -> str:
    try:
        import apsw
    except ImportError:
        return sqlite3.sqlite_version
    return str(apsw.sqlite_lib_version())


def _postgresql_version() -> str:
    from virtflow.testing.postgres import find_program

    try:
        postgres = find_program("postgres")
    except FileNotFoundError:
        return ""
    said = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=False).stdout
    return next((word for word in said.split() if word[:1].isdigit()), "")
