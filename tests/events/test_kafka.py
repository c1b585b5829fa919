"""Kafka behind TLS and passwords: who says the right word comes in, and everything else is told in words."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.events.contract.test_sinks import events

from virtflow.events.contract import SinkFailed
from virtflow.events.kafka import client_arguments, kafka_sink
from virtflow.main.checkup.buses import check_kafka
from virtflow.model.errors import InvalidSetting
from virtflow.model.finding import Verdict
from virtflow.model.kafka import MECHANISMS, read_servers
from virtflow.model.secret import Secret
from virtflow.testing.certificates import Certificate
from virtflow.testing.kafka import KafkaCluster
from virtflow.testing.kafka_gate import KafkaGate, kafka_gate

USER, PASSWORD = "virtflow", "right"
WAIT_S = 30.0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
async def gate(kafka: KafkaCluster, certificate: Certificate) -> AsyncIterator[KafkaGate]:
    async with kafka_gate(kafka.servers, user=USER, password=PASSWORD, tls=certificate.server_context()) as gate:
        yield gate


def address(
    gate: KafkaGate, certificate: Certificate, *, scheme: str = "kafka+ssl", who: str = "", **options: str
) -> str:
    given = {"cafile": str(certificate.file), **options} if scheme == "kafka+ssl" else options
    query = "&".join(f"{name}={value}" for name, value in given.items() if value)
    return f"{scheme}://{who or f'{USER}:{PASSWORD}'}@{gate.servers}{'?' if query else ''}{query}"


async def refusal(url: str) -> SinkFailed:
    sink = kafka_sink(read_servers(url), prefix="gate")
    with pytest.raises(SinkFailed) as failed:
        await sink.send([])
    [found] = await check_kafka(Secret(url), wait_s=WAIT_S)
    assert (found.verdict, failed.value.detail in found.text) == (Verdict.BAD, True)
    assert found.remedy == failed.value.remedy
    assert PASSWORD not in f"{failed.value.detail} {found}"
    return failed.value


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_who_says_the_right_word_comes_in(
    kafka: KafkaCluster, gate: KafkaGate, certificate: Certificate, mechanism: str
) -> None:
    url = address(gate, certificate, mechanism=mechanism)
    sink = kafka_sink(read_servers(url), prefix=f"gate-{mechanism.lower()}")
    await sink.send(events(2))
    await sink.close()
    assert len(await kafka.records(f"gate-{mechanism.lower()}.events")) == 2
    assert set(gate.came_in_by) == {mechanism}
    assert [one.verdict for one in await check_kafka(Secret(url), wait_s=WAIT_S)] == [Verdict.OK]


@pytest.mark.slow
async def test_what_is_wrong_is_said_in_words_with_the_setting(gate: KafkaGate, certificate: Certificate) -> None:
    for mechanism in MECHANISMS:
        wrong = await refusal(address(gate, certificate, who=f"{USER}:wrong", mechanism=mechanism))
        assert wrong.detail == "it refuses our name and password"
        assert "VIRTFLOW_EVENTS_KAFKA_SERVERS" in wrong.remedy
    untrusted = await refusal(address(gate, certificate, cafile=""))
    assert "its certificate is not trusted" in untrusted.detail
    assert "?cafile=" in untrusted.remedy
    plain = await refusal(address(gate, certificate, scheme="kafka"))
    assert "kafka+ssl://" in plain.remedy


@pytest.mark.slow
async def test_brokers_without_tls_or_without_passwords_are_told_from_others(
    kafka: KafkaCluster, certificate: Certificate
) -> None:
    async with kafka_gate(kafka.servers, user=USER, password=PASSWORD) as gate:
        no_tls = await refusal(address(gate, certificate))
        assert "kafka://" in no_tls.remedy
        found = await check_kafka(Secret(address(gate, certificate, scheme="kafka", mechanism="PLAIN")), wait_s=WAIT_S)
        assert [one.verdict for one in found] == [Verdict.OK, Verdict.WARN]
    async with kafka_gate(kafka.servers) as gate:
        no_sasl = await refusal(address(gate, certificate, scheme="kafka"))
        assert "?mechanism=" in no_sasl.remedy


def test_what_the_library_is_told(certificate: Certificate) -> None:
    told = client_arguments(read_servers(f"kafka+ssl://u:p@k1,k2:1?mechanism=PLAIN&cafile={certificate.file}"))
    context = told.pop("ssl_context")
    assert (context.check_hostname, len(context.get_ca_certs())) == (True, 1)
    assert told == {
        "bootstrap_servers": ["k1:9092", "k2:1"],
        "client_id": "virtflow",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }


@pytest.mark.parametrize("option", ["cafile", "certfile"])
def test_a_file_that_cannot_be_read_is_told_at_the_start(tmp_path: Path, option: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        kafka_sink(read_servers(f"kafka+ssl://k1?{option}={tmp_path}/nothing"), prefix="x")
    assert refused.value.setting == "VIRTFLOW_EVENTS_KAFKA_SERVERS"
    assert "nothing" in refused.value.detail
