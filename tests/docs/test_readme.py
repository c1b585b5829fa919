"""The README's session works when pasted."""

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from virtflow.testing.ports import free_port
from virtflow.testing.witness import Server, running

ROOT = Path(__file__).parents[2]


TEXT = (ROOT / "README.md").read_text()
BIN = Path(sys.executable).parent
READY_S_MAX = 90.0


def commands(mark: str) -> list[str]:
    """Those of the blocks with that mark, one each, with their continuation lines."""
    parts = re.findall(rf"<!-- {mark} -->\n```sh\n(.*?)```", TEXT, re.DOTALL)
    return [line for part in parts for line in part.replace("\\\n", " ").splitlines() if line.strip()]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **more}


@pytest.mark.timeout(120)
def test_the_session_of_the_readme_works_when_pasted(tmp_path: Path) -> None:
    session = commands("session")
    assert len(session) > 10
    server = Server(
        database_url=f"sqlite:///{tmp_path}/virtflow.db", log=tmp_path / "server.log", flags=["--simulate", "60"]
    )
    variables = environment(VIRTFLOW_SERVER=server.url)
    with running(server):
        for command in session[1:]:  # the first sets PATH
            pasted = command.replace("localhost:8080", f"127.0.0.1:{server.port}")
            done = subprocess.run(["bash", "-c", pasted], env=variables, capture_output=True, text=True, check=False)
            refused = "explain" in command and "--gpu 8" in command
            assert done.returncode == (6 if refused else 0), f"{command}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr
            if command.startswith("curl"):
                assert '"errors"' not in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.service("postgresql")
def test_the_cluster_of_the_readme_works_when_pasted(postgresql_url: str, tmp_path: Path) -> None:
    """With its database; the broker that it names is not there, which nobody has to notice."""
    export, *processes = commands("cluster")
    assert [re.findall(r"--role (\w+)", command) for command in processes] == [["api"], ["scheduler"], ["relay"]]
    export = re.sub(r"postgresql://\S+", postgresql_url, export)
    port = free_port()
    (tmp_path / "hosts.yaml").write_text(re.findall(r"<!-- hosts -->\n```yaml\n(.*?)```", TEXT, re.DOTALL)[0])
    with contextlib.ExitStack() as stack:
        for number, command in enumerate(processes):
            variables = environment(VIRTFLOW_PORT=str(port if number == 0 else free_port()))
            log = stack.enter_context((tmp_path / f"log-{number}").open("wb"))
            pasted = f"{export}\n{command.replace('virtflow', 'exec virtflow', 1)}"
            process = subprocess.Popen(["bash", "-c", pasted], env=variables, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)

        def run(command: str, *, works: bool = True) -> str:
            pasted = f"{export}\n{command}"
            done = subprocess.run(
                ["bash", "-c", pasted],
                env=environment(VIRTFLOW_SERVER=f"http://127.0.0.1:{port}"),
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert "Traceback" not in done.stderr
            assert not works or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            return done.stdout

        deadline_s = time.monotonic() + READY_S_MAX
        while (
            "scheduler" not in (shown := run("virtflow get processes -o json", works=False))
            or shown.count('"here"') < 3
        ):
            logs = [log.read_text() for log in tmp_path.glob("log-*")]
            assert time.monotonic() < deadline_s, "\n".join([shown, *logs])
            time.sleep(0.1)
        assert run("virtflow apply -f hosts.yaml")
        assert "bm-001" in run("virtflow place web-1 --pool general --cpu 4 --memory 8GiB --wait=30")
        assert run("virtflow fsck --history")


def test_every_target_that_the_readme_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", TEXT, re.MULTILINE))
    assert len(named) > 5
    assert named - targets == set()


def test_the_readme_shows_both_commands_and_every_link_leads_somewhere() -> None:
    assert "make demo" in TEXT
    assert "make test" in TEXT
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", TEXT) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
