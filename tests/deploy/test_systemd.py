"""The units: what systemd itself says of them, and that what they start would start."""

import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.deploy.conftest import DEPLOY, config_of

from virtflow.main.doors.door import EXIT_CONFIGURATION, flags_of
from virtflow.main.parts import make_self_hosts

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
#: of 10: what is left is the network, which it is there for, and writable code, which a compiled engine needs
EXPOSURE_MAX = 1.5


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as they would be installed, with a program that is there."""
    for unit in UNITS:
        text = unit.read_text().replace("/opt/virtflow/bin/virtflow", sys.executable)
        (tmp_path / unit.name).write_text(text)
    return tmp_path


def analyze(programs: Mapping[str, Path], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(programs["systemd"]), *words], capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip


@pytest.mark.service("systemd")
@pytest.mark.parametrize("unit", [unit.name for unit in UNITS])
def test_systemd_finds_nothing_wrong(installed: Path, programs: Mapping[str, Path], unit: str) -> None:
    name = unit.replace("@.", "@8080.")
    (installed / unit).rename(installed / name)
    ran = analyze(programs, "verify", "--recursive-errors=no", str(installed / name))
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.service("systemd")
@pytest.mark.parametrize("unit", [unit.name for unit in UNITS])
def test_the_sandbox_leaves_little_open(installed: Path, programs: Mapping[str, Path], unit: str) -> None:
    threshold = f"--threshold={EXPOSURE_MAX * 10:g}"
    ran = analyze(programs, "security", "--offline=true", threshold, str(installed / unit))
    assert ran.returncode == 0, ran.stdout[-300:]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_every_unit_starts_the_role_of_its_name(unit: Path) -> None:
    [line] = re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE)
    words = line.replace("%i", "8081").split()
    assert words[:2] == ["/opt/virtflow/bin/virtflow", "serve"]
    environ = {f"VIRTFLOW_{name.upper()}": value for name, value in flags_of(words[2:]).items()}
    config = config_of({**environ, "VIRTFLOW_DATABASE_URL": "postgresql://u@h/n"})
    role = re.fullmatch(r"virtflow-(\w+)@\.service", unit.name)
    assert config.role == ({role[1]} if role else {"api", "scheduler", "relay"})
    assert config.port == (8081 if role else 8080)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_what_cannot_become_right_is_not_tried_again_and_a_stop_is_waited_for(unit: Path) -> None:
    text = unit.read_text()
    assert f"RestartPreventExitStatus={EXIT_CONFIGURATION}" in text
    [wait_s] = re.findall(r"^TimeoutStopSec=(\d+)s$", text, re.MULTILINE)
    assert int(wait_s) > 10
    assert "Restart=always" in text


def test_all_units_have_the_same_sandbox() -> None:
    def sandbox(unit: Path) -> str:
        return unit.read_text().partition("# nothing of the machine")[2]

    assert len({sandbox(unit) for unit in UNITS}) == 1


def test_the_example_environment_would_start_also_with_everything_uncommented() -> None:
    lines = (DEPLOY / "systemd/virtflow.env").read_text().splitlines()
    plain = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert config_of(plain).log_format == "json"
    every = dict(line.removeprefix("#").split("=", 1) for line in lines if re.match(r"#?[A-Z_]+=", line))
    config = config_of({**every, "VIRTFLOW_TOKEN": "t"})
    assert (config.host, config.self_label, config.is_shared) == ("0.0.0.0", "role=seed", True)


def test_the_machine_of_a_unit_is_never_a_candidate() -> None:
    """By its host name, with no setting at all."""
    hosts = make_self_hosts(config_of({"VIRTFLOW_DATABASE_URL": "postgresql://u@h/n"}))
    assert hosts.carries(socket.gethostname().partition(".")[0].lower(), "", {})
    assert not hosts.carries("another-machine", "", {})
