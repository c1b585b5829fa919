"""A wall clock that somebody else turns while a process runs."""

import subprocess
import sys
import time
from pathlib import Path

from virtflow.testing.wrong_clock import WrongClock

DAY_S = 86_400
_ASKED = """
import sys, time
from pathlib import Path
from virtflow.testing.wrong_clock import install
install(Path(sys.argv[1]))
for _ in sys.stdin:
    print(time.time(), time.time_ns(), time.monotonic(), flush=True)
"""


def test_only_the_wall_clock_of_the_other_process_jumps(tmp_path: Path) -> None:
    clock = WrongClock(tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", _ASKED, str(clock.file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        for ahead_s in (0, DAY_S, -DAY_S, 0):
            clock.turn(ahead_s)
            before_s, monotonic_s = time.time(), time.monotonic()
            other.stdin.write("\n")
            other.stdin.flush()
            wall, wall_ns, monotonic = map(float, other.stdout.readline().split())
            assert before_s <= wall - ahead_s <= time.time()
            assert before_s <= wall_ns / 1e9 - ahead_s <= time.time()
            assert monotonic_s <= monotonic <= time.monotonic()
        other.stdin.close()
