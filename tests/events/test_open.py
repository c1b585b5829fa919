"""Which buses there are follows the settings; what is wrong with one is said in words that help."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import aio_pika
import pytest
from tests.events.buses import open_sink

from virtflow.events import SinkFailed
from virtflow.events.open import PLUGINS, open_plugin, open_sinks
from virtflow.model.errors import InvalidSetting
from virtflow.model.secret import Secret
from virtflow.testing.nats import nats_server
from virtflow.testing.ports import free_port
from virtflow.testing.rabbitmq import RabbitmqServer
from virtflow.testing.sink import MemorySink

NOTHING = Secret("")


def test_there_are_those_that_are_named() -> None:
    assert open_sinks(nats_url=NOTHING, kafka_servers=NOTHING, amqp_url=NOTHING, prefix="virtflow") == []
    opened = open_sinks(
        nats_url=Secret("nats://h:1"),
        kafka_servers=Secret("h:1,g:2", shown="h:1,g:2"),
        amqp_url=Secret("amqp://h"),
        prefix="virtflow",
    )
    assert [sink.name for sink in opened] == ["nats", "kafka", "amqp"]


def test_kafka_without_its_extra_names_the_setting_and_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    monkeypatch.delitem(sys.modules, "virtflow.events.kafka", raising=False)
    with pytest.raises(InvalidSetting) as refused:
        open_sinks(nats_url=NOTHING, kafka_servers=Secret("h:1", shown="h:1"), amqp_url=NOTHING, prefix="virtflow")
    assert refused.value.setting == "events_kafka_servers"
    assert "pip install 'virtflow[kafka]'" in refused.value.remedy


def test_the_program_refuses_to_start_without_it_in_two_sentences(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['aiokafka'] = None; from virtflow.main import serve; "
        "sys.exit(serve(['--database-url', 'sqlite://', '--events-kafka-servers', 'h:1']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, env={"HOME": str(tmp_path)}
    )
    assert ran.returncode == 78
    assert ran.stdout == ""
    refusal, remedy = ran.stderr.splitlines()
    assert "events_kafka_servers='h:1'" in refusal
    assert "pip install 'virtflow[kafka]'" in remedy


def test_the_bus_of_another_package_is_opened_with_its_location_and_the_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("memory", f"{__name__}:plugin", PLUGINS)
    monkeypatch.setattr("virtflow.events.open.entry_points", lambda group: [point] if group == PLUGINS else [])
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    sink = open_plugin("memory=somewhere=else", prefix="virtflow")
    assert sink.name == "memory at somewhere=else of virtflow"
    with pytest.raises(InvalidSetting, match="nowhere") as refused:
        open_plugin("nowhere=x", prefix="virtflow")
    assert "virtflow.sinks (memory)" in refused.value.remedy


def plugin(location: str, prefix: str) -> MemorySink:
    return MemorySink(f"memory at {location} of {prefix}")


async def failure_of(**settings: str) -> SinkFailed:
    with pytest.raises(SinkFailed) as failed:
        await open_sink({"events_prefix": "virtflow", **settings}).send([])
    return failed.value


@pytest.mark.parametrize(
    ("setting", "address"),
    [
        ("events_nats_url", "nats://u:hush@127.0.0.1:{}"),
        ("events_kafka_servers", "127.0.0.1:{}"),
        ("events_amqp_url", "amqp://u:hush@127.0.0.1:{}"),
    ],
)
async def test_nobody_there_is_said_with_the_setting_to_look_at(setting: str, address: str) -> None:
    failure = await failure_of(**{setting: address.format(free_port())})
    assert "listens there" in failure.detail
    assert f"VIRTFLOW_{setting.upper()}" in failure.remedy
    assert "hush" not in f"{failure.detail} {failure.remedy}"


async def test_nats_that_refuses_our_password_says_so() -> None:
    with nats_server("--user", "virtflow", "--pass", "right") as server:
        address = f"127.0.0.1:{server.port}"
        assert "refuses our name and password" in (await failure_of(events_nats_url=f"nats://{address}")).detail
        wrong = await failure_of(events_nats_url=f"nats://virtflow:wrong@{address}")
        assert "refuses our name and password" in wrong.detail
        assert "VIRTFLOW_EVENTS_NATS_URL" in wrong.remedy
        right = open_sink({"events_prefix": "virtflow", "events_nats_url": f"nats://virtflow:right@{address}"})
        await right.send([])
        await right.close()


async def test_nats_without_jetstream_says_so() -> None:
    with nats_server(jetstream=False) as server:
        failure = await failure_of(events_nats_url=server.url)
    assert failure.detail == "it has no JetStream"
    assert "-js" in failure.remedy


@pytest.mark.slow
@pytest.mark.service("rabbitmq")
async def test_rabbitmq_that_refuses_our_password_says_so(rabbitmq: RabbitmqServer) -> None:
    failure = await failure_of(events_amqp_url=rabbitmq.url(password="wrong"))
    assert "refuses our name and password" in failure.detail


@pytest.mark.slow
@pytest.mark.service("rabbitmq")
async def test_rabbitmq_with_another_exchange_of_that_name_says_so(rabbitmq_url: str) -> None:
    async with await aio_pika.connect(rabbitmq_url) as connection:
        channel = await connection.channel()
        await channel.declare_exchange("virtflow.events", aio_pika.ExchangeType.FANOUT)
    failure = await failure_of(events_amqp_url=rabbitmq_url)
    assert "another exchange" in failure.detail
