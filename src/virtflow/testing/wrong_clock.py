"""`python -m virtflow.testing.wrong_clock …`: `virtflow serve` whose wall clock somebody else turns while it runs.

The file in `VIRTFLOW_WRONG_CLOCK` says by how many seconds; `WrongClock` writes it. What is turned is the wall clock as
Python's `time` tells it, for our code and everybody else's in the process; monotonic time stays right, as it does when
an administrator or a time server sets the clock of a machine.
"""

import mmap
import os
import struct
import sys
import time
from pathlib import Path

VARIABLE = "VIRTFLOW_WRONG_CLOCK"
_SHIFT = struct.Struct("=q")


class WrongClock:
    """The hand that turns it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        #: seconds ahead of the machine's
        self.ahead_s = 0
        self.turn(0)

    def turn(self, ahead_s: int) -> None:
        self.ahead_s = ahead_s
        if not self.file.exists():
            self.file.write_bytes(bytes(_SHIFT.size))
        with self.file.open("r+b") as file:  # in place: who runs has it mapped
            file.write(_SHIFT.pack(ahead_s))


def install(file: Path) -> None:
    """From now on `time.time` and `time.time_ns` of this process are wrong by what the file says at that moment."""
    with file.open("rb") as opened:
        shift = mmap.mmap(opened.fileno(), _SHIFT.size, access=mmap.ACCESS_READ)
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + _SHIFT.unpack(shift[:])[0]
    time.time_ns = lambda: right_ns() + _SHIFT.unpack(shift[:])[0] * 1_000_000_000


def run() -> int:
    install(Path(os.environ.pop(VARIABLE)))
    from virtflow import main  # after: who has imported `time.time` by then has the right one

    return main.serve(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
