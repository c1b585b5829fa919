"""The tool chain: documented commands exist, and nothing names the place packages come from."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = "setup demo demo-cluster node-up api-up check test bench bench-peers simulate planted chaos format lock clean"
REGISTRIES = re.compile(r"(pypi|npmjs|pythonhosted|debian)\.org|--(extra-)?index-url", re.IGNORECASE)
NOT_OURS = re.compile(r"\.(?!ci$|github$).+|node_modules|__pycache__|dist|results")


@pytest.mark.parametrize("target", TARGETS.split())
def test_a_documented_target_exists_and_explains_itself(target):
    assert re.search(rf"^{target}:.*## \w", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_make_command_in_the_readme_exists():
    readme = ROOT / "README.md"
    documented = re.findall(r"(?:^|`)make ([a-z-]+)", readme.read_text(), re.MULTILINE) if readme.exists() else []
    offered = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(documented) <= set(offered)


def test_every_runtime_dependency_is_pinned_with_hashes():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    pinned = (ROOT / "requirements/run.txt").read_text()
    for name in (re.split(r"[<>=~!\[]", line)[0] for line in wanted):
        assert re.search(rf"^{name}==\S+ \\\n    --hash=sha256:", pinned, re.MULTILINE), f"{name}: type `make lock`"


def our_files():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not NOT_OURS.fullmatch(name)]
        yield from (Path(folder, name) for name in files)


def test_no_package_registry_is_named_in_the_tree():
    readable = (path for path in our_files() if path != Path(__file__))
    named = [path for path in readable if REGISTRIES.search(path.read_text(errors="replace"))]
    assert not named


@pytest.mark.parametrize("script", ["dev", ".ci/run", *(f"tools/{p.name}" for p in (ROOT / "tools").glob("*.sh"))])
def test_a_shell_script_parses_and_may_be_executed(script):
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    subprocess.run([path.read_text().split("\n", 1)[0].split()[-1].removeprefix("#!"), "-n", path], check=True)
