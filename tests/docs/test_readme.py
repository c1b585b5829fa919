"""The README's session works when pasted."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from virtflow.testing.witness import Server, running

ROOT = Path(__file__).parents[2]


def session() -> list[str]:
    """The commands between the session marks, one each, with their continuation lines."""
    parts = re.findall(r"<!-- session -->\n```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return [line for part in parts for line in part.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.timeout(120)
def test_the_session_of_the_readme_works_when_pasted(tmp_path: Path) -> None:
    commands = session()
    assert len(commands) > 10
    server = Server(
        database_url=f"sqlite:///{tmp_path}/virtflow.db", log=tmp_path / "server.log", flags=["--simulate", "60"]
    )
    environment = {
        **os.environ,
        "VIRTFLOW_SERVER": server.url,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with running(server):
        for command in commands[1:]:  # the first sets PATH
            pasted = command.replace("localhost:8080", f"127.0.0.1:{server.port}")
            done = subprocess.run(["bash", "-c", pasted], env=environment, capture_output=True, text=True, check=False)
            refused = "explain" in command and "--gpu 8" in command
            assert done.returncode == (6 if refused else 0), f"{command}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr
            if command.startswith("curl"):
                assert '"errors"' not in done.stdout, done.stdout


def test_the_readme_shows_both_commands_and_every_link_leads_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
