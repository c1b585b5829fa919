"""Where the server's time goes: `python -m bench.profile http-schedule|http-single|http-batch`.

The server runs as always, with a sampler inside (every millisecond of its processor time the stack of the main thread
is noted) or under cProfile (`--how calls`), while the load of the benchmark is put on it.
"""

import argparse
import collections
import cProfile
import gc
import json
import pstats
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from bench import http
from bench.load import Job, run_load
from bench.machine import work_folders
from bench.server import Server

KINDS = {
    "http-schedule": "schedule",
    "http-single": "vm",
    "http-batch": "batch",
    "http-batch-one-shape": "batch-one-shape",
}
SAMPLE_S = 0.001
STACK_MAX = 60


def main(argv: Sequence[str]) -> int:
    options = _options(argv)
    with work_folders(Path(options.work)) as folders:
        folder = next(each for each in folders if each.name == options.place)
        out = folder.path / "profile"
        command = [sys.executable, "-m", "bench.profile", "--inside", options.how, str(out)]
        with http.database_in(options.database, folder.path) as url:
            with Server(url, folder=folder.path, command=command) as server:
                http.register_hosts(server, options.hosts)
                server.post("/v1/vms", {"pool": "bench", "resources": {"cpu": 1000, "memory": 1024}})
                before_s = server.processor_s()
                job = Job(
                    port=server.port, kind=KINDS[options.what], connections=options.connections, seconds=options.seconds
                )
                outcome = run_load(job)
                used_s = server.processor_s() - before_s
            us_per_vm = used_s / max(1, outcome.accepted) * 1e6
            print(
                f"{outcome.vms_per_s:,.0f} VMs/s while watched ({options.how}); {us_per_vm:.1f} µs of the server's "
                f"processor per VM; p50 {outcome.p50_ms:.1f} ms, p99 {outcome.p99_ms:.1f} ms; "
                f"answers {outcome.statuses}"
            )
            _show(out, options.how, us_per_vm=us_per_vm, lines=options.lines)
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("what", choices=sorted(KINDS))
    parser.add_argument("--how", choices=("samples", "calls"), default="samples")
    parser.add_argument("--database", choices=(http.SQLITE, http.POSTGRESQL), default=http.SQLITE)
    parser.add_argument("--place", choices=("disk", "memory"), default="disk")
    parser.add_argument("--work", default=".", help="a folder on the disk to measure on")
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--lines", type=int, default=40)
    options = parser.parse_args(argv)
    if not options.connections:
        singles = options.what in {"http-schedule", "http-single"}
        options.connections = http.SINGLES_CONNECTIONS if singles else http.BATCH_CONNECTIONS
    return options


# ── what was seen ─────────────────────────────────────────────────────────────────────────────────


def _show(out: Path, how: str, *, us_per_vm: float, lines: int) -> None:
    if how == "calls":
        pstats.Stats(str(out)).sort_stats("tottime").print_stats(lines)
        return
    seen: dict[str, Any] = json.loads(out.read_text())
    stacks: dict[str, int] = seen["stacks"]
    total = sum(stacks.values()) or 1
    print(f"garbage collection: {seen['gc_s'] / seen['processor_s'] * 100:.1f} % of the processor time")
    for title, counts in (("by itself", _leaves(stacks)), ("with what it calls", _everybody(stacks))):
        print(f"\nµs per VM, {title}")
        for name, count in counts.most_common(lines):
            print(f"  {count / total * us_per_vm:8.2f}  {count / total * 100:5.1f} %  {name}")


def _leaves(stacks: dict[str, int]) -> "collections.Counter[str]":
    counts: collections.Counter[str] = collections.Counter()
    for stack, count in stacks.items():
        counts[stack.rpartition(";")[2]] += count
    return counts


def _everybody(stacks: dict[str, int]) -> "collections.Counter[str]":
    counts: collections.Counter[str] = collections.Counter()
    for stack, count in stacks.items():
        for name in set(stack.split(";")):
            counts[name] += count
    return counts


# ── inside the server ─────────────────────────────────────────────────────────────────────────────


def run_inside(how: str, out: Path, argv: Sequence[str]) -> int:
    """Serve and watch; write down what was seen at the end."""
    from virtflow.main import serve

    if how == "calls":
        profile = cProfile.Profile()
        try:
            return profile.runcall(serve, argv)
        finally:
            profile.dump_stats(out)
    sampler = _Sampler()
    try:
        return serve(argv)
    finally:
        sampler.write(out)


class _Sampler:
    """Notes the stack of the main thread; what other threads do counts for whoever waits for them."""

    def __init__(self) -> None:
        self._stacks: collections.Counter[tuple[str, ...]] = collections.Counter()
        self._gc_s = 0.0
        self._gc_from_s = 0.0
        gc.callbacks.append(self._note_gc)
        signal.signal(signal.SIGPROF, self._note)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)

    def _note(self, _number: int, frame: FrameType | None) -> None:
        self._stacks[tuple(_names(frame))] += 1

    def _note_gc(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._gc_from_s = time.perf_counter()
        else:
            self._gc_s += time.perf_counter() - self._gc_from_s

    def write(self, out: Path) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        stacks: collections.Counter[str] = collections.Counter()
        for stack, count in self._stacks.items():
            stacks[";".join(reversed(stack))] += count
        out.write_text(json.dumps({"stacks": stacks, "gc_s": self._gc_s, "processor_s": time.process_time()}))


def _names(frame: FrameType | None) -> Iterator[str]:
    """From the innermost outwards."""
    for _ in range(STACK_MAX):
        if frame is None:
            return
        code = frame.f_code
        yield f"{_short(code.co_filename)}:{code.co_qualname}"
        frame = frame.f_back


def _short(path: str) -> str:
    """Without where it is installed."""
    for mark in ("/site-packages/", "/src/", "/python3."):
        _, found, rest = path.rpartition(mark)
        if found:
            return rest
    return path.rpartition("/")[2]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.exit(run_inside(sys.argv[2], Path(sys.argv[3]), sys.argv[4:]))
    sys.exit(main(sys.argv[1:]))
