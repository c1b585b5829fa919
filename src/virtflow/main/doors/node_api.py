"""`virtflow node-api`."""

import importlib
from collections.abc import Sequence


def node_api(argv: Sequence[str]) -> int:
    """`virtflow node-api`: a small node API to try things against."""
    return int(importlib.import_module("virtflow.testing.node_api").main(list(argv)) or 0)
