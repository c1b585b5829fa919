"""Mistakes are told at the start, with the cause and the way out; what may pass is tried again."""

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.queue.conftest import channel_at, office_at

from virtflow.config import load_config
from virtflow.engine import strategies
from virtflow.model.errors import InvalidSetting
from virtflow.model.secret import Secret
from virtflow.queue.trouble import judge
from virtflow.testing.rabbitmq import RabbitmqServer

broker = [pytest.mark.service("rabbitmq"), pytest.mark.slow, pytest.mark.xdist_group("rabbitmq")]


def marked(test: object) -> object:
    for mark in broker:
        test = mark(test)
    return test


async def refusal(url: str, *, names: str = "") -> InvalidSetting:
    """`names`: what the broker itself says of the user."""
    with pytest.raises(InvalidSetting) as refused:
        async with office_at(url):
            pass
    assert "guest" not in refused.value.detail.replace(names, "")  # nobody's name or password
    assert refused.value.detail.startswith("VIRTFLOW_BROKER_URL='amqp")
    assert refused.value.remedy
    return refused.value


@marked
async def test_a_wrong_password_is_refused(rabbitmq: RabbitmqServer) -> None:
    assert "refuses this user or password" in (await refusal(rabbitmq.url(password="guess"))).detail


@marked
async def test_a_virtual_host_that_is_not_there_is_refused(rabbitmq: RabbitmqServer) -> None:
    error = await refusal(rabbitmq.url("nowhere"))
    assert "virtual host" in error.detail
    assert "nowhere" in error.detail
    assert "add_vhost" in error.remedy


@marked
async def test_a_user_who_may_not_declare_is_refused(rabbitmq: RabbitmqServer) -> None:
    url = rabbitmq.new_vhost()
    rabbitmq.ctl("set_permissions", "-p", url.rpartition("/")[2], "guest", "^$", ".*", ".*")
    error = await refusal(url, names="refused for user 'guest'")
    assert "may not do what is needed" in error.detail
    assert "task.dlx" in error.detail
    assert "set_permissions" in error.remedy


@marked
@pytest.mark.parametrize(("name", "kind"), [("task.schedule", "queue"), ("task", "exchange")])
async def test_what_exists_with_other_arguments_is_refused(rabbitmq_url: str, name: str, kind: str) -> None:
    async with channel_at(rabbitmq_url) as channel:
        if kind == "queue":
            await channel.declare_queue(name, durable=True)
        else:
            await channel.declare_exchange(name, "fanout")
    error = await refusal(rabbitmq_url)
    assert f"{kind} '{name}'" in error.detail
    assert "with other arguments" in error.detail
    assert "delete it" in error.remedy


@marked
async def test_tls_where_there_is_none_is_refused(rabbitmq: RabbitmqServer) -> None:
    error = await refusal(rabbitmq.url().replace("amqp://", "amqps://"))
    assert "does not speak TLS at that port" in error.detail


def test_an_untrusted_certificate_is_a_mistake() -> None:
    cause = ssl.SSLCertVerificationError(1, "certificate verify failed")
    cause.verify_message = "self-signed certificate"
    error = ConnectionError("no")
    error.__cause__ = cause
    found = judge(error, Secret("amqps://x/"))
    assert isinstance(found, InvalidSetting)
    assert "self-signed certificate" in found.detail


# ── trouble ────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def somebody_who(answers: bytes | None) -> AsyncIterator[str]:
    """None: takes the connection and says nothing."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if answers is None:
                await reader.read()
            else:
                writer.write(answers)
                await writer.drain()
            writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    try:
        yield f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


async def test_nobody_there_is_trouble() -> None:
    async with office_at("amqp://127.0.0.1:1/") as office:
        assert office.queue.state.startswith("degraded: ")
        assert "Connect call failed" in office.queue.state


async def test_a_name_that_nobody_knows_is_trouble() -> None:
    async with office_at("amqp://broker.invalid/") as office:
        assert office.queue.state.startswith("degraded: ")


async def test_silence_is_trouble_and_ends_in_time() -> None:
    async with somebody_who(None) as url, office_at(url, timeout_s=0.1) as office:
        assert office.queue.state == "degraded: it does not answer in time"


@pytest.mark.parametrize("answers", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 100])
async def test_somebody_else_at_that_port_is_trouble(answers: bytes) -> None:
    async with somebody_who(answers) as url, office_at(url, timeout_s=1) as office:
        assert office.queue.state.startswith("degraded: ")


# ── the program ────────────────────────────────────────────────────────────────────────────────────


@marked
def test_the_program_says_what_is_wrong_and_ends_with_78(rabbitmq: RabbitmqServer, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "virtflow.main", "serve", "--database-url", tmp_path / "virtflow.db", "--port", "0"],
        env={**os.environ, "RABBITMQ_URL": rabbitmq.url(password="guess")},
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 78
    assert "\nvirtflow: VIRTFLOW_BROKER_URL='amqp://***@" in f"\n{done.stderr}"
    assert "refuses this user or password" in done.stderr
    assert "Traceback" not in done.stderr
    assert "guess" not in done.stderr


@pytest.mark.parametrize("url", ["http://broker/", "amqp://", "broker:5672", "amqp://a b/", "amqp://broker:0/"])
def test_a_url_of_another_kind_is_refused_by_the_settings(tmp_path: Path, url: str) -> None:
    environ = {"HOME": str(tmp_path), "VIRTFLOW_BROKER_URL": url}
    with pytest.raises(InvalidSetting, match="VIRTFLOW_BROKER_URL"):
        load_config(environ=environ, known_strategies=strategies.names(), flags={})


def test_the_old_name_of_the_setting_is_understood(tmp_path: Path) -> None:
    url = "amqp://guest:guest@localhost:5672/"
    config = load_config(
        environ={"HOME": str(tmp_path), "RABBITMQ_URL": url}, known_strategies=strategies.names(), flags={}
    )
    assert config.broker_url.reveal() == url
    assert "guest" not in json.dumps(str(config.broker_url))
