"""Where the server's time goes: `python -m bench.profile http-schedule|http-single|http-batch`.

The server runs as always, with a sampler inside (every millisecond the stack of the main thread is noted) or under
cProfile (`--how calls`), while the load of the benchmark is put on it.
"""

import argparse
import collections
import cProfile
import gc
import json
import pstats
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
WARM_UP_S = 0.5
#: tells the sampler to begin, and to end
SWITCH = signal.SIGUSR2
STACK_MAX = 60
#: where the event loop itself (and the kernel for it) is seen, be it busy or not
LOOP = "asyncio/runners.py:Runner.run"


def main(argv: Sequence[str]) -> int:
    options = _options(argv)
    with work_folders(Path(options.work)) as folders:
        folder = next(each for each in folders if each.name == options.place)
        out = folder.path / "profile"
        command = [sys.executable, "-m", "bench.profile", "--inside", options.how, str(out)]
        with http.database_in(options.database, folder.path) as url:
            with Server(url, folder=folder.path, command=command) as server:
                http.register_hosts(server, options.hosts)
                job = Job(
                    port=server.port, kind=KINDS[options.what], connections=options.connections, seconds=options.seconds
                )
                run_load(replace(job, seconds=WARM_UP_S))
                before_s = server.processor_s()
                if options.how == "samples":
                    server.tell(SWITCH)
                outcome = run_load(job)
                if options.how == "samples":
                    server.tell(SWITCH)
                used_s = server.processor_s() - before_s
            us_per_vm = used_s / max(1, outcome.accepted) * 1e6
            print(
                f"{outcome.vms_per_s:,.0f} VMs/s while watched ({options.how}); {us_per_vm:.1f} µs of the server's "
                f"processor per VM; p50 {outcome.p50_ms:.1f} ms, p99 {outcome.p99_ms:.1f} ms; "
                f"answers {outcome.statuses}"
            )
            _show(out, options.how, vms=max(1, outcome.accepted), lines=options.lines)
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("what", choices=sorted(KINDS))
    parser.add_argument("--how", choices=("samples", "calls"), default="samples")
    parser.add_argument("--database", choices=(http.SQLITE, http.POSTGRESQL), default=http.SQLITE)
    parser.add_argument("--place", choices=("disk", "memory"), default="disk")
    parser.add_argument("--work", default=tempfile.gettempdir(), help="a folder on the disk to measure on")
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


def _show(out: Path, how: str, *, vms: int, lines: int) -> None:
    if how == "calls":
        pstats.Stats(str(out)).sort_stats("tottime").print_stats(lines)
        return
    seen: dict[str, Any] = json.loads(out.read_text())
    stacks, idle = _without_idleness(seen["stacks"], idle=1 - seen["used_s"] / seen["watched_s"])
    total = sum(stacks.values()) or 1
    main_us = seen["used_s"] / vms * 1e6
    print(f"The main thread was idle {idle * 100:.0f} % of the time and took {main_us:.1f} µs per VM, of which")
    print(
        f"garbage collection {seen['gc_s'] / vms * 1e6:.1f} µs (it counts for whoever was interrupted by it), "
        f"the longest pause {seen['gc_s_max'] * 1000:.1f} ms."
    )
    for title, counts in (("by itself", _leaves(stacks)), ("with what it calls", _everybody(stacks))):
        print(f"\nµs per VM, {title}")
        for name, count in counts.most_common(lines):
            print(f"  {count / total * main_us:8.2f}  {count / total * 100:5.1f} %  {name}")


def _without_idleness(stacks: dict[str, int], *, idle: float) -> tuple[dict[str, int], float]:
    """The loop waits in the same place in which it works, so what the clock of the thread says is taken off."""
    waiting = [stack for stack in stacks if stack.endswith(LOOP)]
    total, at_loop = sum(stacks.values()), sum(stacks[stack] for stack in waiting)
    left = max(0, at_loop - int(idle * total))
    kept = {stack: count for stack, count in stacks.items() if stack not in waiting}
    return {**kept, LOOP: left}, max(0.0, idle)


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
        self._gc_s = self._gc_s_max = self._gc_from_s = 0.0
        self._watched_s = self._used_s = 0.0
        self._is_on = False
        gc.callbacks.append(self._note_gc)
        signal.signal(signal.SIGALRM, self._note)
        signal.signal(SWITCH, self._switch)

    def _switch(self, _number: int, _frame: FrameType | None) -> None:
        self._is_on = not self._is_on
        sign = -1 if self._is_on else 1
        self._watched_s += sign * time.perf_counter()
        self._used_s += sign * time.thread_time()
        interval_s = SAMPLE_S if self._is_on else 0.0
        signal.setitimer(signal.ITIMER_REAL, interval_s, interval_s)

    def _note(self, _number: int, frame: FrameType | None) -> None:
        self._stacks[tuple(_names(frame))] += 1

    def _note_gc(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._gc_from_s = time.perf_counter()
        elif self._is_on:
            pause_s = time.perf_counter() - self._gc_from_s
            self._gc_s += pause_s
            self._gc_s_max = max(self._gc_s_max, pause_s)

    def write(self, out: Path) -> None:
        stacks: collections.Counter[str] = collections.Counter()
        for stack, count in self._stacks.items():
            stacks[";".join(reversed(stack))] += count
        seen = {
            "stacks": stacks,
            "gc_s": self._gc_s,
            "gc_s_max": self._gc_s_max,
            "watched_s": self._watched_s,
            "used_s": self._used_s,
        }
        out.write_text(json.dumps(seen))


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
