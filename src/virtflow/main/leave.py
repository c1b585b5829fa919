"""Leaving in order, and in time: whoever told us to stop kills us after ten seconds or so."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

import structlog

log = structlog.get_logger("virtflow")

#: from the word to stop to the end of the process, whatever hangs
LEAVE_S_MAX = 9.5
#: of it, for requests under way
ANSWER_S_MAX = 7.0
EXIT_UNFINISHED = 75  # EX_TEMPFAIL


class Departure:
    """Begun by the word to stop. What is not done in time is not done: nobody was told that it is."""

    def __init__(self, *, within_s: float = LEAVE_S_MAX) -> None:
        self._within_s = within_s
        # a thread of its own: the loop may be what hangs
        self._guard = threading.Timer(within_s, self._break_off)
        self._guard.daemon = True

    def begin(self) -> None:
        log.info("stopping", within_s=self._within_s)
        self._guard.start()

    def end(self) -> None:
        self._guard.cancel()
        log.info("stopped")

    def _break_off(self) -> None:
        log.error("stop.unfinished", after_s=self._within_s)
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(EXIT_UNFINISHED)


@contextlib.contextmanager
def departure() -> Iterator[Departure]:
    """Ends with the block."""
    made = Departure()
    try:
        yield made
    finally:
        made.end()
