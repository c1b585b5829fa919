"""For pytest, as `-p virtflow.testing.planted.plugin`: a bug is there while tests run, to see whether one fails."""

import os
from typing import TYPE_CHECKING

from virtflow.testing.planted.bug import VARIABLE
from virtflow.testing.planted.bugs import BUGS

if TYPE_CHECKING:
    import pytest


def pytest_configure(config: "pytest.Config") -> None:
    planted = {bug.name: bug for bug in BUGS}[os.environ[VARIABLE]].plant()
    planted.__enter__()

    def mend() -> None:
        planted.__exit__(None, None, None)

    config.add_cleanup(mend)
