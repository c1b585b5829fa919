"""Programs that are started here and shall not outlive who started them."""

import ctypes
import functools
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def die_with_parent(how: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """As `preexec_fn`: a test run that is killed leaves nothing behind.

    The parent is the *thread* that started it: who starts a program in a thread of a pool loses it with the pool.
    """
    return functools.partial(_die_with_parent, ctypes.CDLL(None).prctl, how)


def _die_with_parent(prctl: Callable[[int, int], int], how: signal.Signals) -> None:
    """Between fork and exec: one system call and nothing else."""
    prctl(_PR_SET_PDEATHSIG, how)
