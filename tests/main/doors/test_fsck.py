"""`virtflow fsck`: what it says, in which form, and how it ends."""

import asyncio
import json
import shutil
from pathlib import Path

import apsw
import pytest
import yaml
from tests.control.conftest import config, host, order
from tests.control.test_schedule import create, register

from virtflow.main import build, fsck


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lived") / "virtflow.db"

    async def live() -> None:
        service = build(config(path), inventories=[])
        async with service.running():
            await register(service, host("bm-1"))
            await create(service, order("web-1"))

    asyncio.run(live())
    return path


@pytest.fixture
def path(lived: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(lived, tmp_path / "virtflow.db"))


def corrupt(path: Path) -> None:
    apsw.Connection(str(path)).execute("UPDATE task SET version = 7")


def test_an_honest_past_ends_with_0_and_names_every_invariant(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fsck(["--history", "--database-url", f"sqlite:///{path}"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1 hosts, 1 VMs, 1 tasks, 0 answers, 2 events in ")
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("I")] == [f"I{n}" for n in range(1, 21)]
    assert "I6   -        one live instance for each VM (no agents yet" in shown
    assert shown.endswith("everything that can be judged holds\n")


def test_a_violation_ends_with_1_and_is_named(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corrupt(path)
    assert fsck(["--history", "--database-url", f"sqlite:///{path}"]) == 1
    shown = capsys.readouterr().out
    assert "I10  1 WRONG  every row is what its last event says\n       task " in shown
    assert shown.endswith("1 violations of I10\n")


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_a_document(path: Path, capsys: pytest.CaptureFixture[str], form: str, read: object) -> None:
    corrupt(path)
    assert fsck(["--history", "-o", form, "--database-url", f"sqlite:///{path}"]) == 1
    document = read(capsys.readouterr().out)  # type: ignore[operator]
    assert (document["holds"], document["violations_total"], document["events"]) == (False, 1, 2)
    [broken] = [one for one in document["invariants"] if one["verdict"] == "violated"]
    assert broken["id"] == "I10"
    assert "version 7" in broken["first"][0]["text"]


def test_the_short_check_has_the_same_forms(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        assert fsck(["-o", form, "--database-url", f"sqlite:///{path}"]) == 0
        assert read(capsys.readouterr().out)["violations_total"] == 0


def test_a_system_at_rest_and_clients_need_no_word_more(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = path.with_name("c.jsonl")
    call = {"at": 1, "client": "c", "op": 1, "phase": "call", "do": "create", "kind": "vm", "name": "lost"}
    answer = {"at": 2, "client": "c", "op": 1, "phase": "ok"}
    history.write_text(f"{json.dumps(call)}\n{json.dumps(answer)}\n")
    assert fsck(["--at-rest", "--clients", str(history), "--database-url", f"sqlite:///{path}"]) == 1
    shown = capsys.readouterr().out
    assert "1 operations of clients" in shown
    assert "VM lost was acknowledged, nobody deleted it, and it is not there" in shown


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--history", "--clients", "/no/such/file"], 2, "/no/such/file"),
        (["--history", "-o", "xml"], 2, "choose one of table, json, yaml"),
        (["--history", "--database-url", "postgresql://127.0.0.1:1/nothing"], 5, "does not answer"),
        (["--history", "--database-url", "sqlite:////no/such/file.db"], 78, "there is no file"),
    ],
)
def test_what_cannot_be_judged_is_neither_right_nor_wrong(
    path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, complaint: str
) -> None:
    given = words if "--database-url" in words else [*words, "--database-url", f"sqlite:///{path}"]
    assert fsck(given) == code
    said = capsys.readouterr()
    assert complaint in said.err
    assert "Traceback" not in said.err
