"""A test whose program is missing is skipped, and the end of the run says so aloud."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUIET = ["-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "tests.conftest", "-c", ROOT / "pyproject.toml"]


def run_pytest(folder, *, source, options=()):
    (folder / "test_it.py").write_text(f"import pytest\n\n{source}")
    command = [sys.executable, "-m", "pytest", *QUIET, *options, folder / "test_it.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {"PATH": ""}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_missing_program_is_named_at_the_end_of_a_parallel_run(tmp_path):
    source = "@pytest.mark.service('strace')\ndef test_it(): assert False\n"
    run = run_pytest(tmp_path, source=source, options=["-n", "1"])
    assert run.returncode == 0, run.stdout
    assert "NOT RUN: strace" in run.stdout


def test_a_service_nobody_lists_is_an_error(tmp_path):
    run = run_pytest(tmp_path, source="@pytest.mark.service('strcae')\ndef test_it(): pass\n")
    assert run.returncode != 0
    assert "'strcae' is not in tools/services.txt" in run.stdout + run.stderr
