"""A slice of `make chaos`: a few rounds of real harm, judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.service("postgresql")
@pytest.mark.xdist_group("chaos")
def test_a_few_rounds_lose_nothing_double_nothing_and_overcommit_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chaos", "--only", "leader-kill", "--rounds", "2"]
    done = subprocess.run(
        [*command, "--work", str(tmp_path / "work")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found = json.loads(done.stdout.splitlines()[-1])["nemeses"]
    assert [(one["nemesis"], one["rounds"], one["violations"]) for one in found] == [("leader-kill", 2, 0)]
    assert all(one["operations"] > 0 and one["events"] > 0 for one in found)
