"""`virtflow backup` and `virtflow restore` as they are typed: what is said, and how they end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from virtflow.testing.witness import Server, fsck, register_hosts, running


def virtflow(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VIRTFLOW_", "SCHEDULING_"))}
    return subprocess.run(
        [sys.executable, "-m", "virtflow.cli.app", *words],
        env={**kept, "HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_a_backup_beside_a_running_server_and_its_restore(tmp_path: Path) -> None:
    server = Server(database_url=f"sqlite:///{tmp_path}/a.db", log=tmp_path / "log")
    with running(server):
        register_hosts(server.url, hosts=3, cores=8)
        taken = virtflow("backup", "x.vfb", "--database-url", "a.db", home=tmp_path)
        assert (taken.returncode, taken.stderr) == (0, "")
        assert taken.stdout.endswith(" bytes)\n")
        again = virtflow("backup", "x.vfb", "--database-url", "a.db", home=tmp_path)
        assert (again.returncode, "nothing is overwritten" in again.stderr) == (1, True)
        onto = virtflow("restore", "x.vfb", "--database-url", "a.db", home=tmp_path)
        assert (onto.returncode, "another process uses it" in onto.stderr) == (78, True)
    restored = virtflow("restore", "x.vfb", "--database-url", "b.db", home=tmp_path)
    assert (restored.returncode, "begins a new history" in restored.stdout) == (0, True)
    report = fsck(f"sqlite:///{tmp_path}/b.db")
    assert (report["violations_total"], report["hosts"]) == (0, 3)
    with running(Server(database_url=f"sqlite:///{tmp_path}/b.db", log=tmp_path / "log")):
        pass  # it starts on what was restored


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["backup", "x.vfb", "--database-url", "nowhere.db"], 78, "there is no file"),
        (["backup", "x.vfb", "--database-url", "sqlite://"], 1, "in memory"),
        (["backup", "no/such/folder/x.vfb", "--database-url", "empty.db"], 1, "No such file"),
        (["restore", "nowhere.vfb", "--database-url", "b.db"], 1, "No such file"),
        (["restore", "text.vfb", "--database-url", "b.db"], 1, "cannot be restored"),
        (["restore", "text.vfb", "--port", "x"], 78, "port="),
        (["restore"], 2, "FILE"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence_or_two(
    tmp_path: Path, words: list[str], code: int, says: str
) -> None:
    (tmp_path / "text.vfb").write_text("no backup")
    ran = virtflow(*words, home=tmp_path)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not {"x.vfb", "b.db"} & {path.name for path in tmp_path.iterdir()}
