"""What a server need not load before it answers."""

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
