"""Whatever hangs, a process that was told to stop is gone in time."""

import subprocess
import sys
import textwrap
import time

from virtflow.main.leave import EXIT_UNFINISHED, departure


def test_a_process_that_hangs_is_ended_with_a_word_and_its_own_exit_code() -> None:
    program = textwrap.dedent("""
        import time
        from virtflow.main.leave import Departure
        Departure(within_s=0.2).begin()
        while True:
            time.sleep(60)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == EXIT_UNFINISHED
    assert "stop.unfinished" in done.stdout + done.stderr


def test_a_process_that_ends_in_time_is_left_alone() -> None:
    with departure() as leave:
        leave.begin()
        guard = leave._guard
    began_s = time.monotonic()
    guard.join()
    assert time.monotonic() - began_s < 5
