"""The receiver of webhooks as a program: friendly, recording, and honest about what it cannot use."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from virtflow.events.signature import sign
from virtflow.model.secret import Secret
from virtflow.model.webhook import secret_text
from virtflow.testing.receiver import Behaviour, main, receiver

SECRET = Secret(secret_text(b"k" * 32))
BODY = b'{"type": "virtflow.task.failed", "subject": "task/7", "id": "h-1"}'


@contextlib.contextmanager
def program(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Running inside the block; and its address."""
    command = [sys.executable, "-m", "virtflow.testing.receiver", "--port", "0", *options]
    process = subprocess.Popen(
        command, env={**os.environ, "WEBHOOK_SECRET": SECRET.reveal()}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        hello = process.stdout.readline()
        yield process, hello.split()[2]
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def post(url: str, *, secret: Secret = SECRET, body: bytes = BODY) -> int:
    import time

    at = int(time.time())
    headers = {
        "webhook-id": "h-1",
        "webhook-timestamp": str(at),
        "webhook-signature": sign([secret], message_id="h-1", timestamp=at, body=body),
    }
    return httpx.post(url, content=body, headers=headers, trust_env=False).status_code


def test_it_shows_and_records_what_it_verified(tmp_path: Path) -> None:
    record = tmp_path / "messages.jsonl"
    with program("--record", str(record)) as (process, url):
        assert post(url) == 204
        assert post(url, secret=Secret(secret_text(b"x" * 32))) == 204
        assert post(url, body=b"no JSON") == 204
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(2)]
    assert lines == ["verified virtflow.task.failed task/7 h-1", "FORGED virtflow.task.failed task/7 h-1"]
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(row["id"], row["verified"], row["event"]["subject"]) for row in rows] == [
        ("h-1", True, "task/7"),
        ("h-1", False, "task/7"),
    ]


def test_it_may_behave_badly() -> None:
    with program("--behaviour", "gone") as (_, url):
        assert post(url) == 410


@pytest.mark.parametrize(
    ("secret", "options", "words"),
    [("short", [], "WEBHOOK_SECRET must be whsec_"), ("", ["--record", "/nowhere/at/all"], "/nowhere/at/all")],
)
def test_what_it_cannot_use_is_said_in_words(
    secret: str, options: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET", secret)
    assert main(["--port", "0", *options]) == 78
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


async def test_paths_may_behave_otherwise_than_the_rest() -> None:
    async with receiver(behaviour=Behaviour.ERROR) as hook, httpx.AsyncClient(trust_env=False) as client:
        hook.by_path["/hook?fine"] = Behaviour.OK
        statuses = await asyncio.gather(*(client.post(f"{hook.url}{query}") for query in ("", "?fine")))
    assert [answer.status_code for answer in statuses] == [500, 204]
