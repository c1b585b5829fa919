"""What a server need not load before it answers, and need not keep."""

import ctypes
import gc
import importlib
import sys


def import_structlog() -> None:
    """Without `rich`, which it would use for coloured tracebacks that no log of ours shows: a tenth of a start."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # the documented way to say that a module cannot be imported
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]


def settle_down() -> None:
    """After the fleet was read: what is here now stays, so the collector need not look at it again.

    What reading took and left goes back to the system, where the C library has a way to say so: half of what is held.
    """
    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
