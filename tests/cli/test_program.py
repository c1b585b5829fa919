"""The program around its commands: errors, exit codes, start-up, completion."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Program, check_golden
from tests.client.servers import CUT, Answer, scripted

from virtflow.cli.app import arrange, main
from virtflow.cli.exits import Exit

HEAVY = ("pydantic", "rich", "click", "pygments", "httpx", "msgspec", "yaml", "virtflow.client", "virtflow.main")


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("VIRTFLOW_")}
    return subprocess.run(
        [sys.executable, "-m", "virtflow.cli.app", *words],
        env={**env, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_first_page_of_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == Exit.OK
    check_golden("help", capsys.readouterr().out)


@pytest.mark.parametrize("words", [["get", "hosts", "--help"], ["place", "--help"], ["version"], ["serve", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "virtflow.cli.app", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(re.findall(r"\| +([\w.]+)$", ran.stderr, re.MULTILINE))
    assert "typer" in loaded
    assert loaded & set(HEAVY) == set()


def test_a_command_loads_no_second_command_line() -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "virtflow.cli.app", "--server", "127.0.0.1:1", "get", "hosts"],
        capture_output=True,
        text=True,
        check=False,
    )
    loaded = set(re.findall(r"\| +([\w.]+)$", ran.stderr, re.MULTILINE))
    assert "httpx" in loaded
    assert loaded & {"pydantic", "rich", "click", "pygments"} == set()


def test_nobody_there_is_said_with_the_way_out(alone: Program) -> None:
    ran = alone("get", "hosts")
    assert (ran.code, ran.out) == (Exit.NOT_REACHABLE, "")
    assert ran.err == (
        "virtflow: http://127.0.0.1:1 does not answer: Connection refused\n"
        "  start one with `virtflow serve` (or `virtflow demo`), or name another with --server or VIRTFLOW_SERVER\n"
    )


@pytest.mark.parametrize(
    ("words", "problem", "help_of"),
    [
        (["gte"], "No such command 'gte'. Did you mean 'get'?", "virtflow"),
        (["get", "nodes"], "No such command 'nodes'.", "virtflow get"),
        (
            ["get", "hosts", "--poll", "x"],
            "No such option: --poll (Possible options: --label, --pool)",
            "virtflow get hosts",
        ),
        (["get", "hosts", "--limit", "0"], "0 is out of range: at least 1.", "virtflow get hosts"),
        (["get", "hosts", "-o", "xml"], "'xml' is none of table, wide, json, yaml, name.", "virtflow get hosts"),
        (["place", "--gpu", "one"], "'one' is no whole number.", "virtflow place"),
        (["place", "--wait=long"], "'long' is no number.", "virtflow place"),
        (["place", "--wait=nan"], "out of range", "virtflow place"),
        (["add", "host"], "Missing argument 'NAME'.", "virtflow add host"),
        (["add", "host", "x"], "Missing option '--cpu'.", "virtflow add host"),
    ],
)
def test_wrong_words_are_told_with_where_help_is(alone: Program, words: list[str], problem: str, help_of: str) -> None:
    ran = alone(*words)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert problem in ran.err
    assert ran.err.endswith(f"  see: {help_of} --help\n")


@pytest.mark.parametrize("words", [["place"], ["place", "--cpu", "much"], ["place", "--cpu", "1", "--label", "x"]])
def test_wrong_amounts_are_usage_errors(alone: Program, words: list[str]) -> None:
    assert alone(*words).code == Exit.USAGE


def test_a_verb_alone_shows_its_help(alone: Program) -> None:
    ran = alone("get")
    assert ran.code == Exit.USAGE
    assert "Usage: virtflow get" in ran.err


@pytest.mark.parametrize(
    ("variable", "value"),
    [("VIRTFLOW_SERVER", "ftp://x"), ("VIRTFLOW_TIMEOUT_S", "soon"), ("VIRTFLOW_CA_FILE", "/none")],
)
def test_a_wrong_setting_is_told_by_its_name(variable: str, value: str) -> None:
    ran = run("info", **{"VIRTFLOW_SERVER": "https://127.0.0.1:1", variable: value})
    assert ran.returncode == Exit.CONFIGURATION
    assert variable in ran.stderr or "ca_file" in ran.stderr


def test_the_environment_sets_output_and_token() -> None:
    with scripted(Answer({"items": [{"name": "bm-001"}], "next": None})) as server:
        ran = run("get", "hosts", VIRTFLOW_SERVER=server.address, VIRTFLOW_OUTPUT="name", VIRTFLOW_TOKEN="hush")
        assert ran.stdout == "bm-001\n"
        assert server.seen[0].headers["Authorization"] == "Bearer hush"


def test_a_missing_token_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with scripted(Answer({"code": "unauthorized", "detail": "a token is needed"}, 401)) as server:
        ran = Program(capsys, server.address)("info")
    assert (ran.code, ran.err) == (
        Exit.FAILED,
        "virtflow: a token is needed\n  put a token into VIRTFLOW_TOKEN\n",
    )


def test_somebody_else_at_the_address_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with scripted(Answer(b"<html>not found</html>", 404)) as server:
        ran = Program(capsys, server.address)("info")
    assert ran.code == Exit.NOT_FOUND
    assert "check that --server is a virtflow server's address" in ran.err


def test_what_should_not_happen_shows_no_traceback_unless_wanted(
    alone: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("virtflow.cli.about.draw_info", None)
    with scripted(Answer({})) as server:
        broken = Program(alone._capsys, server.address)
        ran = broken("info")
        assert ran.code == Exit.FAILED
        assert "this should not happen: TypeError" in ran.err
        assert "Traceback" not in ran.err
        assert "Traceback" in broken("info", "--debug").err


def test_the_server_may_be_named_anywhere() -> None:
    assert arrange(["get", "hosts", "--server", "x:1", "--debug"], "d") == (["get", "hosts"], "x:1", True)
    assert arrange(["--server=x:1", "info", "--", "--server", "y"], "d") == (
        ["info", "--", "--server", "y"],
        "x:1",
        False,
    )
    assert arrange(["place", "web", "--wait"], "d") == (["place", "web", "--wait=60"], "d", False)
    assert arrange(["place", "--wait=5"], "d").words == ["place", "--wait=5"]


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    items = [{"name": f"bm-{number:05d}"} for number in range(20_000)]
    with scripted(Answer({"items": items[:1000], "next": None})) as server:
        program = f"{sys.executable} -m virtflow.cli.app --server {server.address}"
        line = f"{program} get hosts -o json | head -1; echo ${{PIPESTATUS[0]}}"
        ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("[\n0\n", "")


def test_an_interrupt_ends_quietly() -> None:
    with scripted(Answer({"items": [], "next_after": 0, "oldest": 1, "newest": 0})) as server:
        words = [sys.executable, "-m", "virtflow.cli.app", "--server", server.address, "events", "--follow"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            end = time.monotonic() + 20
            while len(server.seen) < 2 and time.monotonic() < end:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
        assert (process.returncode, err) == (Exit.INTERRUPTED, b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_every_shell(alone: Program, shell: str) -> None:
    ran = alone("completion", shell)
    assert ran.code == Exit.OK
    assert "_VIRTFLOW_COMPLETE" in ran.out


def test_completion_completes() -> None:
    words = {"_VIRTFLOW_COMPLETE": "complete_bash", "COMP_WORDS": "virtflow get ho", "COMP_CWORD": "2"}
    assert run(**words).stdout.split() == ["hosts"]
    words = {"_VIRTFLOW_COMPLETE": "complete_bash", "COMP_WORDS": "virtflow place --dry", "COMP_CWORD": "2"}
    assert run(**words).stdout.split() == ["--dry-run"]


def test_benchmarks_are_of_the_source_tree(alone: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("virtflow.cli.server.__file__", str(tmp_path / "a/b/c/server.py"))
    ran = alone("bench")
    assert ran.code == Exit.FAILED
    assert "make bench" in ran.err


@pytest.mark.parametrize(
    ("words", "function", "handed"),
    [
        (
            ["serve", "--port", "9", "--simulate=5", "--retries-max", "7", "--config", "x.toml"],
            "serve",
            ["--port", "9", "--simulate", "5", "--config", "x.toml", "--retries-max", "7"],
        ),
        (["node-api", "--port", "5001", "--hosts", "3"], "node_api", ["--port", "5001", "--hosts", "3"]),
        (["fsck", "--database-url", "x.db", "-o", "json"], "fsck", ["--database-url", "x.db", "--output", "json"]),
        (
            ["fsck", "--history", "--at-rest", "--clients", "a", "--clients", "b"],
            "fsck",
            ["--history", "--at-rest", "--clients", "a", "--clients", "b"],
        ),
        (["backup", "x.vfb", "--database-url", "x.db"], "backup", ["x.vfb", "--database-url", "x.db"]),
        (["restore", "x.vfb", "--config", "x.toml"], "restore", ["x.vfb", "--config", "x.toml"]),
        (["doctor", "--port", "9", "-o", "json"], "doctor", ["--output", "json", "--port", "9"]),
        (["config", "show", "-o", "json", "--port", "9"], "config_show", ["--output", "json", "--port", "9"]),
    ],
)
def test_commands_of_the_server_are_handed_over(
    alone: Program, monkeypatch: pytest.MonkeyPatch, words: list[str], function: str, handed: list[str]
) -> None:
    seen: list[list[str]] = []

    def take(argv: list[str]) -> int:
        seen.append(argv)
        return 7

    monkeypatch.setattr(f"virtflow.main.{function}", take)
    assert alone(*words).code == 7
    assert seen == [handed]


def test_a_stale_inventory_is_told_aside_and_cannot_play_with_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    stale = {
        "source": "http",
        "location": "x",
        "state": "stale",
        "age_s": 95.5,
        "last_error": "\x1b]0;title\x07\r\x9b2J",
    }
    with scripted(Answer({"items": [{"name": "bm-001"}], "next": None, "inventory": [stale]})) as server:
        ran = Program(capsys, server.address)("get", "hosts", "-o", "name")
    assert ran.out == "bm-001\n"
    assert ran.err == "inventory http x is stale, 95s old: \ufffd]0;title\ufffd\ufffd\ufffd2J\n"


def test_what_was_accepted_before_a_refusal_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("virtflow.cli.place.ORDERS_AT_ONCE", 2)
    accepted = Answer({"items": [{"name": "a-1"}, {"name": "a-2"}]}, 202)
    refused = Answer({"code": "already_exists", "detail": "a-3 exists"}, 409)
    with scripted(accepted, refused) as server:
        ran = Program(capsys, server.address)("place", "a", "--cpu", "1", "--count", "3")
    assert (ran.code, ran.err) == (
        Exit.CONFLICT,
        "The first 2 of 3 VMs were accepted; then:\nvirtflow: a-3 exists\n",
    )


def test_what_may_have_been_accepted_is_told_as_that(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request had arrived, its answer had not: all of it was there afterwards."""
    monkeypatch.setattr("virtflow.cli.place.ORDERS_AT_ONCE", 2)
    accepted = Answer({"items": [{"name": "a-1"}, {"name": "a-2"}]}, 202)
    with scripted(accepted, CUT) as server:
        ran = Program(capsys, server.address)("place", "a", "--cpu", "1", "--count", "3")
    assert ran.code == Exit.NOT_REACHABLE
    assert ran.err.splitlines()[:2] == [
        "The first 2 of 3 VMs were accepted; then:",
        "Of 1 VM more it is not known whether they were accepted: see virtflow get vms",
    ]


def test_what_another_process_decides_a_moment_later_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = {"name": "web-1", "id": "1", "status": "pending", "host": None}
    undecided = waiting | {"explanation": {"code": "fits_now", "text": "there is room now"}}
    placed = waiting | {"host": "bm-1", "address": "10.0.0.1"}
    with scripted(Answer(waiting, 202), Answer(undecided), Answer(undecided), Answer(placed)) as server:
        ran = Program(capsys, server.address)("place", "web-1", "--cpu", "1")
    assert (ran.code, ran.out) == (Exit.OK, "web-1 placed on bm-1 (10.0.0.1)\n")
    assert len(server.seen) == 4


def test_of_many_that_another_process_decides_all_are_looked_at_again(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = [{"name": f"web-{n}", "id": str(n), "status": "pending", "host": None} for n in (1, 2)]
    placed = [one | {"host": "bm-1", "address": "10.0.0.1"} for one in waiting]
    with scripted(Answer({"items": waiting}, 202), *map(Answer, [placed[0], placed[0], placed[1]])) as server:
        ran = Program(capsys, server.address)("place", "web", "--cpu", "1", "--count", "2")
    assert (ran.code, ran.lines[-1]) == (Exit.OK, "2 VMs: 2 placed on 1 host")


def test_who_finds_no_room_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = {"name": "web-1", "id": "1", "status": "pending", "host": None}
    refused = waiting | {"explanation": {"code": "insufficient_resources", "text": "no room"}}
    with scripted(Answer(waiting, 202), Answer(refused)) as server:
        ran = Program(capsys, server.address)("place", "web-1", "--cpu", "1")
    assert (ran.code, ran.lines[0]) == (Exit.OK, "web-1 waits for room")
    assert len(server.seen) == 2
