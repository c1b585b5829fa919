"""Before anything is counted: the first large round makes a server compile its engine, which happens once."""

import time
from collections.abc import Sequence

from bench.load import Job, Outcome, run_load
from bench.machine import processor_s

BATCHES, BATCH = 2, 1_000
LOOK_S, AT_REST_CORES, REST_S_MAX = 1.0, 0.3, 30.0


def warm_up(port: int, pids: Sequence[int]) -> Outcome:
    """What was placed for it; returns when the processes are at rest again."""
    outcome = run_load(Job(port=port, kind="batch", connections=1, batch=BATCH, vms=BATCHES * BATCH, seconds=60))
    end_s = time.perf_counter() + REST_S_MAX
    while _cores(pids) > AT_REST_CORES and time.perf_counter() < end_s:
        pass
    return outcome


def _cores(pids: Sequence[int]) -> float:
    before_s = sum(map(processor_s, pids))
    time.sleep(LOOK_S)
    return (sum(map(processor_s, pids)) - before_s) / LOOK_S
