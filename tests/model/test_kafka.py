"""Addresses of Kafka's brokers, with and without who we are; whatever is unclear is refused."""

import pytest

from virtflow.model.kafka import Servers, read_servers
from virtflow.model.secret import Secret


def test_a_list_is_as_it_always_was() -> None:
    assert read_servers("k1:9092,[::1]:9093") == Servers(addresses=("k1:9092", "[::1]:9093"))
    assert read_servers("k1:9092").protocol == "PLAINTEXT"


def test_a_url_says_how_they_let_us_in() -> None:
    servers = read_servers("kafka+ssl://me%40home:pa%2Fss@k1,k2:9093,[::1]/?mechanism=PLAIN&cafile=/ca.pem")
    assert servers == Servers(
        addresses=("k1:9092", "k2:9093", "[::1]:9092"),
        is_tls=True,
        user="me@home",
        password=Secret("pa/ss"),
        mechanism="PLAIN",
        cafile="/ca.pem",
    )
    assert "pa/ss" not in repr(servers)


@pytest.mark.parametrize(
    ("text", "protocol", "mechanism"),
    [
        ("kafka://k1", "PLAINTEXT", "SCRAM-SHA-512"),
        ("kafka://u:p@k1", "SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("kafka+ssl://k1", "SSL", "SCRAM-SHA-512"),
        ("kafka+ssl://u:p@k1?mechanism=SCRAM-SHA-256", "SASL_SSL", "SCRAM-SHA-256"),
    ],
)
def test_each_way_has_its_name_in_kafkas_words(text: str, protocol: str, mechanism: str) -> None:
    servers = read_servers(text)
    assert (servers.protocol, servers.mechanism) == (protocol, mechanism)


@pytest.mark.parametrize(
    "text",
    [
        "k1", "k1:", ":9092", "k1:0", "k1:65536", "k1:9092,", "u:p@k1:9092", "http://k1:9092", "kafka://", "kafka://k1,",
        "kafka://u@k1", "kafka://:p@k1", "kafka://u:@k1", "kafka://k1?mechanism=PLAIN", "kafka://u:p@k1?mechanism=plain",
        "kafka://k1?cafile=/x", "kafka+ssl://k1?cafile=", "kafka+ssl://k1?keyfile=/k", "kafka+ssl://k1?cafile=a&cafile=b",
        "kafka+ssl://k1?sasl=1", "kafka+ssl://k1/topic", "kafka+ssl://k1#x", "kafka+ssl://k1?cafile",
    ],
)  # fmt: skip
def test_whatever_is_unclear_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whose words are the rule of the setting
        read_servers(text)
