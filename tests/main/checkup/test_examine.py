"""Part by part: who is well, who is not, and that nobody is waited for beyond a bound."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from virtflow.config import load_config
from virtflow.engine import strategies
from virtflow.main.checkup import examine as examination
from virtflow.main.checkup.beside import beside
from virtflow.main.checkup.broker import check_broker
from virtflow.main.checkup.buses import check_kafka, check_nats
from virtflow.main.checkup.examine import examine
from virtflow.main.checkup.inventories import check_inventories
from virtflow.main.checkup.machine import check_machine
from virtflow.main.checkup.server import check_server
from virtflow.main.doors.doctor import lines_of
from virtflow.model.finding import Finding, Verdict, bad, ok, warn
from virtflow.model.secret import Secret
from virtflow.testing.witness import Server, running

NOBODY = "127.0.0.1:1"
WAIT_S = 20.0


def config(**flags: str) -> object:
    return load_config(environ={"HOME": "/nowhere"}, known_strategies=strategies.names(), flags=flags)


def verdicts(found: Sequence[Finding]) -> list[str]:
    assert all(finding.remedy for finding in found if finding.verdict is not Verdict.OK)
    return [finding.verdict.value for finding in found]


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    "check",
    [
        lambda place, wait_s: check_broker("broker", Secret(f"amqp://guest:hunter2@{place}/"), wait_s=wait_s),
        lambda place, wait_s: check_nats(Secret(f"nats://u:hunter2@{place}"), wait_s=wait_s),
        lambda place, wait_s: check_kafka(Secret(f"kafka://u:hunter2@{place}"), wait_s=wait_s),
    ],
    ids=["rabbitmq", "nats", "kafka"],
)
async def test_a_part_that_is_absent_or_silent_is_found(
    check: Callable[[str, float], Awaitable[Sequence[Finding]]], silent: int
) -> None:
    for place, wait_s in ((NOBODY, WAIT_S), (f"127.0.0.1:{silent}", 0.3)):
        found = await check(place, wait_s)
        assert verdicts(found) == ["bad"]
        assert "hunter2" not in str(found)


async def test_an_inventory_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("[{name: a, cpu: 4, memory: 4096}, {name: '?', cpu: 4}]")
    assert verdicts(await check_inventories(config(inventory_file=str(file)))) == ["warn"]
    file.write_text("[{name: a, cpu: 4, memory: 4096}]")
    [found] = await check_inventories(config(inventory_file=str(file)))
    assert found.text == f"{file} lists 1 hosts"
    file.write_text("[]")
    assert verdicts(await check_inventories(config(inventory_file=str(file)))) == ["warn"]
    file.unlink()
    assert verdicts(await check_inventories(config(inventory_file=str(file)))) == ["bad"]
    assert verdicts(await check_inventories(config(inventory_plugin="nobody=x"))) == ["bad"]
    assert verdicts(await check_inventories(config(inventory_url=f"http://{NOBODY}/nodes"))) == ["bad"]
    assert verdicts(await check_inventories(config())) == ["ok"]


async def test_a_port_is_free_or_somebody_s() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        [found] = await check_server(config(port=port), wait_s=0.3)
        assert (found.verdict, "somebody else" in found.text) == (Verdict.BAD, True)
    assert verdicts(await check_server(config(port=port), wait_s=WAIT_S)) == ["ok"]
    assert verdicts(await check_server(config(host="localhost", port=port), wait_s=WAIT_S)) == ["ok"]


async def test_a_running_virtflow_is_asked_how_it_is(tmp_path: Path) -> None:
    server = Server(database_url=f"sqlite:///{tmp_path}/virtflow.db", log=tmp_path / "log")
    with running(server):
        port = server.url.rpartition(":")[2]
        [found] = await check_server(config(port=port), wait_s=WAIT_S)
    assert (found.verdict, found.text) == (Verdict.OK, f"the virtflow at http://127.0.0.1:{port}/healthz is well")


async def test_what_a_running_virtflow_says_of_its_parts_is_passed_on_with_its_remedies(tmp_path: Path) -> None:
    server = Server(
        database_url=f"sqlite:///{tmp_path}/virtflow.db",
        log=tmp_path / "log",
        flags=("--broker-url", f"amqp://u:hunter2@{NOBODY}/"),
    )
    with running(server):
        [found] = await check_server(config(port=server.url.rpartition(":")[2]), wait_s=WAIT_S)
    assert found.verdict is Verdict.WARN
    assert "says that its broker is degraded since 20" in found.text
    assert "VIRTFLOW_BROKER_URL" in found.remedy
    assert "hunter2" not in str(found)


async def test_a_config_file_that_everybody_may_read(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("tick_s = 1")
    file.chmod(0o644)
    assert f"everybody may read {file} (mode 644)" in str(await check_machine(config(config=str(file))))
    file.chmod(0o640)
    assert "everybody may read" not in str(await check_machine(config(config=str(file))))


async def test_a_part_that_hangs_or_breaks_hides_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def hang(_: object, **__: object) -> Sequence[Finding]:
        await asyncio.sleep(3600)
        return []

    async def break_down(_: object) -> Sequence[Finding]:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(examination, "PART_S_MAX", 0.2)
    monkeypatch.setattr(examination, "check_server", hang)
    monkeypatch.setattr(examination, "check_inventories", break_down)

    found = await examine({"HOME": str(tmp_path)}, {})

    wrong = {finding.part: finding.text for finding in found if finding.verdict is Verdict.BAD}
    assert wrong["server"] == "it did not answer within 0.2 s"
    assert wrong["inventories"] == "looking at it failed: ZeroDivisionError: oh"
    # on a busy machine others may be late as well, and are named too
    assert {finding.part for finding in found} >= {"settings", "machine", "database"}


async def test_work_beside_hands_over_its_result_or_its_failure() -> None:
    assert await beside(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await beside(lambda: 1 // 0)


async def test_work_that_hangs_keeps_nobody() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await beside(lambda: time.sleep(0.2))
    await asyncio.sleep(0.3)  # and what comes late is dropped without a word


def test_a_finding_is_a_line_and_its_remedy_another() -> None:
    found = [ok("machine", "fine"), warn("database", "slow", "a faster disk"), bad("broker", "gone", "start it")]

    assert list(lines_of(found)) == [
        "ok    machine       fine",
        "warn  database      slow",
        "                  → a faster disk",
        "bad   broker        gone",
        "                  → start it",
        "1 ok, 1 warn, 1 bad",
    ]


def doctor(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VIRTFLOW_", "SCHEDULING_"))}
    return subprocess.run(
        [sys.executable, "-m", "virtflow.main", "doctor", *words],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_on_a_fresh_machine_nothing_is_bad(tmp_path: Path) -> None:
    ran = doctor("--port", "0", HOME=str(tmp_path), XDG_CONFIG_HOME="", XDG_DATA_HOME=str(tmp_path / "data"))

    assert (ran.returncode, ran.stderr) == (0, "")
    assert " 0 bad" not in ran.stdout
    assert "bad " not in ran.stdout
    assert not (tmp_path / "data").exists()  # looking makes nothing


def test_where_everything_is_broken_everything_is_named_and_it_ends(tmp_path: Path, silent: int) -> None:
    (tmp_path / "strategy").write_text("besser")
    (tmp_path / "hosts.yaml").write_text("{")
    began_s = time.monotonic()

    ran = doctor(
        "-o", "json", "--port", str(silent), "--lease-s", "x",
        HOME=str(tmp_path),
        VIRTFLOW_DATABASE_URL=f"postgresql://u:hunter2@127.0.0.1:{silent}/x",
        VIRTFLOW_BROKER_URL=f"amqp://u:hunter2@127.0.0.1:{silent}/",
        VIRTFLOW_EVENTS_NATS_URL=f"nats://u:hunter2@127.0.0.1:{silent}",
        VIRTFLOW_EVENTS_KAFKA_SERVERS=f"127.0.0.1:{silent}",
        VIRTFLOW_EVENTS_AMQP_URL=f"amqp://u:hunter2@{NOBODY}/",
        VIRTFLOW_STRATEGY_FILE=str(tmp_path / "strategy"),
        VIRTFLOW_INVENTORY_FILE=str(tmp_path / "hosts.yaml"),
    )  # fmt: skip

    assert (ran.returncode, ran.stderr) == (1, "")
    assert time.monotonic() - began_s < 45  # parts are waited for beside each other, 10 s at most
    found = json.loads(ran.stdout)
    unwell = [one["part"] for one in found if one["verdict"] == "bad"]
    assert unwell == ["settings", "settings", "server", "database", "broker", "nats", "kafka", "amqp", "inventories"]
    assert all(one["remedy"] for one in found if one["verdict"] != "ok")
    assert "hunter2" not in ran.stdout
