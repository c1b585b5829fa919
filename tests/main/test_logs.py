"""How a log line looks, and that no secret is ever in one."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from tests.control.conftest import config

from virtflow.main.logs import mask_passwords, set_up_logging
from virtflow.testing.cluster import Process, cluster, wait_until
from virtflow.testing.postgres import PostgresServer


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def broken() -> None:
    password = "in-a-variable"  # noqa: F841  what a traceback must not show
    raise RuntimeError("cannot reach postgresql://me:in-a-message@db:5432/x")


def say_everything(path: Path, log_format: str) -> None:
    set_up_logging(config(path, log_format=log_format))
    log = structlog.get_logger("virtflow")
    log.info("task.placed", task="0193", host="bm-1", total_ms=1.5)
    log.warning("inventory.failed", error="http://me:in-a-field@nodes/ does not answer")
    try:
        broken()
    except RuntimeError:
        log.exception("loop.failed", loop="digging")
        logging.getLogger("some.library").exception("amqp://me:in-a-library@mq/ is gone, %s", "really")


def test_as_json_every_line_is_an_object_also_those_of_libraries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say_everything(tmp_path, "json")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines[:3]] == ["task.placed", "inventory.failed", "loop.failed"]
    assert lines[0] | {"timestamp": ""} == {
        "event": "task.placed", "task": "0193", "host": "bm-1", "total_ms": 1.5, "level": "info", "timestamp": "",
    }  # fmt: skip
    assert (lines[3]["logger"], lines[3]["level"]) == ("some.library", "error")
    assert lines[2]["exception"][0]["exc_type"] == "RuntimeError"
    assert lines[3]["exception"][0]["exc_type"] == "RuntimeError"


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_no_password_is_written_whoever_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], log_format: str
) -> None:
    say_everything(tmp_path, log_format)
    written = capsys.readouterr().err
    assert "task.placed" in written
    assert written.count("RuntimeError") >= 2
    for secret in ("in-a-variable", "in-a-message", "in-a-field", "in-a-library"):
        # the line of code may be shown, the value may not
        assert secret not in written.replace('password = "in-a-variable"', "").replace(
            'me:in-a-message@db:5432/x")', ""
        )


def test_warnings_of_the_interpreter_come_in_the_same_form(tmp_path: Path) -> None:
    program = f"""
        import warnings
        from pathlib import Path
        from tests.control.conftest import config
        from virtflow.main.logs import set_up_logging
        set_up_logging(config(Path({str(tmp_path)!r}), log_format="json"))
        warnings.warn("never awaited", RuntimeWarning)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    [line] = [json.loads(line) for line in done.stderr.splitlines()]
    assert (line["logger"], line["level"]) == ("py.warnings", "warning")
    assert "never awaited" in line["event"]


def test_a_connection_that_never_came_about_is_collected_in_silence(tmp_path: Path) -> None:
    """In a thread without a loop the library's goodbye cannot be said, and would be complained of."""
    program = f"""
        import asyncio, contextlib, gc
        from pathlib import Path
        import aio_pika
        from tests.control.conftest import config
        from virtflow.main.logs import set_up_logging
        set_up_logging(config(Path({str(tmp_path)!r}), log_format="json"))

        async def main():
            gc.disable()
            with contextlib.suppress(OSError):
                await aio_pika.connect("amqp://127.0.0.1:1/")
            await asyncio.to_thread(gc.collect)

        asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_only_the_password_is_masked() -> None:
    event: dict[str, Any] = {"event": "x", "url": "amqp://me:s3cret@mq:5672/v", "plain": "a@b", "n": 1}
    assert mask_passwords(None, "", event) == {"event": "x", "url": "amqp://me:***@mq:5672/v", "plain": "a@b", "n": 1}


CANARIES = {name: f"canary-{name}-7f3a" for name in ("token", "inventory", "database", "broker")}
ASKED = ("/v1/info", "/healthz", "/readyz", "/metrics", "/v1/fleet", "/v1/hosts/x", "/openapi.json")


def answers_of(process: Process) -> str:
    heads: list[dict[str, str]] = [{}, {"Authorization": f"Bearer {CANARIES['token']}"}]
    return "".join(httpx.get(f"{process.url}{path}", headers=head).text for path in ASKED for head in heads)


def settings_shown_by(process: Process) -> str:
    command = [sys.executable, "-m", "virtflow.main", "config-show"]
    return subprocess.run(command, env=process._environment(), capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.service("postgresql")
@pytest.mark.parametrize("log_format", ["json", "text"])
def test_no_secret_leaves_a_real_process_that_has_much_to_complain_of(
    tmp_path: Path, postgresql: PostgresServer, log_format: str
) -> None:
    name, user = f"canary_{os.getpid()}_{log_format}", f"singer_{os.getpid()}_{log_format}"
    asyncio.run(postgresql.create_database(name))
    asyncio.run(postgresql.run(name, f"CREATE ROLE {user} LOGIN SUPERUSER PASSWORD '{CANARIES['database']}'"))
    postgresql.demand_password_of(user)
    with cluster(
        tmp_path,
        database_url=f"postgresql://{user}:{CANARIES['database']}@127.0.0.1:{postgresql.port}/{name}",
        broker_url=f"amqp://me:{CANARIES['broker']}@127.0.0.1:1/",
        token=CANARIES["token"],
        inventory_url="http://127.0.0.1:1/nodes",
        inventory_token=CANARIES["inventory"],
        inventory_poll_s="0.1",
        log_level="debug",
        log_format=log_format,
    ) as them:
        process = them.add("one")
        process.start()
        wait_until(lambda: "inventory.failed" in process.log_text())
        wait_until(lambda: process.ask("/healthz") is not None)
        said = answers_of(process)
        asyncio.run(postgresql.run("postgres", f"ALTER ROLE {user} PASSWORD 'another'"))
        sessions = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{user}'"
        asyncio.run(postgresql.run("postgres", sessions))
        wait_until(lambda: not process.is_ready())
        said += answers_of(process)
        said += Path(f"/proc/{process.pid}/cmdline").read_text() + settings_shown_by(process)
        process.terminate()
        written = process.log_text()
    assert "serving" in written
    if log_format == "json":
        assert all(json.loads(line)["event"] for line in written.splitlines())
    for canary in CANARIES.values():
        assert canary not in written
        assert canary not in said
