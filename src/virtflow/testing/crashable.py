"""`python -m virtflow.testing.crashable …`: `virtflow serve` with failpoints, for tests that kill it."""

import os
import sys

from virtflow import main
from virtflow.testing.failpoints import VARIABLE, FailingStore, Failpoints, failing_app


def run() -> int:
    failpoints = Failpoints.parse(os.environ.pop(VARIABLE, ""))
    return main.serve(
        sys.argv[1:],
        wrap_store=lambda store: FailingStore(store, failpoints),
        wrap_app=lambda app: failing_app(app, failpoints),
    )


if __name__ == "__main__":
    sys.exit(run())
