"""Real brokers, buses and leaders, looked at by the doctor."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from aio_pika.exceptions import ChannelNotFoundEntity
from tests.control.conftest import start  # noqa: F401  # a fixture

from virtflow.config import Config, load_config
from virtflow.control.metrics import Metrics
from virtflow.engine import strategies
from virtflow.main import Service
from virtflow.main.checkup import election
from virtflow.main.checkup.broker import check_broker, check_queue
from virtflow.main.checkup.buses import check_kafka, check_nats
from virtflow.main.checkup.election import check_election, judge_offices
from virtflow.main.checkup.processes import check_processes, judge_processes
from virtflow.model.errors import InvalidSetting
from virtflow.model.finding import Finding, Verdict
from virtflow.model.health import Status, Unwell
from virtflow.model.lease import Lease
from virtflow.model.process import Process
from virtflow.model.secret import Secret
from virtflow.queue.rabbitmq import RabbitmqQueue
from virtflow.queue.topology import EXCHANGE, QUEUE, QUEUE_ARGUMENTS, declare
from virtflow.testing.kafka import kafka_cluster
from virtflow.testing.nats import nats_server

WAIT_S = 30.0
Start = Callable[..., AbstractAsyncContextManager[Service]]


def said(found: "list[Finding] | tuple[Finding, ...] | object") -> list[tuple[str, str]]:
    return [(one.verdict.value, one.text) for one in found]  # type: ignore[attr-defined]


def config(**flags: str) -> Config:
    return load_config(environ={"HOME": "/nowhere"}, known_strategies=strategies.names(), flags=flags)


@pytest.mark.slow
@pytest.mark.service("rabbitmq")
class TestRabbitmq:
    async def test_a_fit_broker_before_and_after_the_first_start(self, rabbitmq_url: str) -> None:
        import aio_pika

        first = said(await check_queue(Secret(rabbitmq_url), wait_s=WAIT_S))
        assert [verdict for verdict, _ in first] == ["ok"] * 6
        assert ("ok", f"the queue {QUEUE} is made at the first start") in first
        assert ("ok", f"the exchange {EXCHANGE} is made at the first start") in first
        async with await aio_pika.connect(rabbitmq_url) as connection:
            channel = await connection.channel()
            with pytest.raises(ChannelNotFoundEntity):  # looking has made none
                await channel.declare_queue(QUEUE, passive=True)
            channel = await connection.channel()
            await declare(channel)
            await channel.default_exchange.publish(aio_pika.Message(b"x"), QUEUE)
            later = said(await check_queue(Secret(rabbitmq_url), wait_s=WAIT_S))
        assert [verdict for verdict, _ in later] == ["ok"] * 6
        assert ("ok", f"the queue {QUEUE} holds 1 messages") in later
        assert ("ok", f"the exchange {EXCHANGE} is as it should be") in later

    @pytest.mark.parametrize(
        ("others", "said"),
        [
            ({"x-queue-type": "classic"}, ""),  # which difference is told first is the broker's choice
            ({**QUEUE_ARGUMENTS, "x-dead-letter-exchange": "elsewhere"}, "'x-dead-letter-exchange' "),
            ({**QUEUE_ARGUMENTS, "x-max-length": 5}, "'x-max-length' "),
        ],
        ids=["classic", "dead letters elsewhere", "short"],
    )
    async def test_a_queue_with_other_arguments_is_refused_at_the_start_and_named_by_the_doctor(
        self, rabbitmq_url: str, others: dict[str, object], said: str
    ) -> None:
        import aio_pika

        async with await aio_pika.connect(rabbitmq_url) as connection:
            await (await connection.channel()).declare_queue(QUEUE, durable=True, arguments=others)  # type: ignore[arg-type]
        queue = RabbitmqQueue(Secret(rabbitmq_url), prefetch=1, timeout_s=WAIT_S, observer=Metrics())
        with pytest.raises(InvalidSetting) as refused:
            await queue.open()
        await queue.close()
        assert refused.value.detail.startswith("VIRTFLOW_BROKER_URL=")
        [finding] = [
            one for one in await check_queue(Secret(rabbitmq_url), wait_s=WAIT_S) if one.verdict is Verdict.BAD
        ]
        for text in (refused.value.detail, finding.text):
            assert f"{said}for queue '{QUEUE}'" in text
        assert "rabbitmqctl delete_queue" in finding.remedy
        assert refused.value.remedy == finding.remedy

    async def test_an_exchange_of_another_type_is_named(self, rabbitmq_url: str) -> None:
        import aio_pika

        async with await aio_pika.connect(rabbitmq_url) as connection:
            await (await connection.channel()).declare_exchange("virtflow.events", "fanout", durable=True)
        found = await check_broker("amqp", Secret(rabbitmq_url), wait_s=WAIT_S, exchanges=("virtflow.events",))
        [finding] = [one for one in found if one.verdict is Verdict.BAD]
        assert "'type' for exchange 'virtflow.events'" in finding.text
        assert "delete exchange" in finding.remedy

    async def test_a_wrong_password_and_a_missing_virtual_host(self, rabbitmq_url: str) -> None:
        wrong = rabbitmq_url.replace("guest:guest@", "guest:hunter2@")
        [finding] = await check_broker("amqp", Secret(wrong, shown="amqp://…"), wait_s=WAIT_S)
        assert (finding.verdict, finding.part) == (Verdict.BAD, "amqp")
        assert "refuses this user or password" in finding.text
        assert "hunter2" not in str(finding)
        nowhere = rabbitmq_url.rpartition("/")[0] + "/nowhere"
        [finding] = await check_broker("broker", Secret(nowhere), wait_s=WAIT_S)
        assert finding.verdict is Verdict.BAD
        assert "add_vhost" in finding.remedy


@pytest.mark.slow
async def test_nats_with_and_without_streams() -> None:
    with nats_server() as server:
        [finding] = await check_nats(Secret(server.url, shown=server.url), wait_s=WAIT_S)
        assert (finding.verdict, finding.text) == (Verdict.OK, f"{server.url} keeps 0 streams")
    with nats_server(jetstream=False) as server:
        [finding] = await check_nats(Secret(server.url), wait_s=WAIT_S)
        assert (finding.verdict, "-js" in finding.remedy) == (Verdict.BAD, True)


@pytest.mark.slow
async def test_kafka_that_answers() -> None:
    with kafka_cluster() as cluster:
        [finding] = await check_kafka(Secret(cluster.servers), wait_s=WAIT_S)
    assert finding.verdict is Verdict.OK


def lease(office: str, holder: str = "p-1", *, beat: int = 1) -> Lease:
    return Lease(office=office, holder=holder, term=3, beat=beat, is_attended=True, since_ms=1)


def test_offices_are_judged_by_two_looks() -> None:
    before = {"scheduler": lease("scheduler", beat=7), "relay": lease("relay", beat=7)}
    after = {"scheduler": lease("scheduler", beat=8), "relay": lease("relay", beat=7)}

    assert said(judge_offices(before, after, is_counted_here=True)) == [
        ("ok", "p-1 is the scheduler, in term 3"),
        ("bad", "p-1 holds the office relay and shows no sign of life"),
    ]
    assert [verdict for verdict, _ in said(judge_offices(before, after, is_counted_here=False))] == ["ok", "ok"]
    nobody = {"scheduler": lease("scheduler", ""), "relay": lease("relay", beat=9)}
    assert said(judge_offices(before, nobody, is_counted_here=True))[0] == ("warn", "nobody is the scheduler")
    assert [verdict for verdict, _ in said(judge_offices({}, {}, is_counted_here=True))] == ["warn", "warn"]


def test_processes_are_judged_by_what_they_say_themselves() -> None:
    broker = Unwell(part="broker", status=Status.DEGRADED, since_ms=0, cause="away", remedy="start it")
    digging = Unwell(part="digging", status=Status.FAILING, since_ms=0, cause="restarting", remedy="restart it")

    def process(name: str, *, silent_ms: int = 0, roles: tuple[str, ...] = ("api",), **more: object) -> Process:
        return Process(
            id=name, node="bm-1", roles=roles, address="", version="1", started_ms=1, silent_ms=silent_ms, **more
        )  # type: ignore[arg-type]

    found = list(
        judge_processes(
            [
                process("well"),
                process("ill", unwell=(digging, broker)),
                process("dead", silent_ms=60_000, unwell=(broker,)),
                process("gone", roles=()),
            ]
        )
    )
    since = "since 1970-01-01T00:00:00.000Z"
    assert said(found) == [
        ("ok", "well on bm-1 is well"),
        ("bad", f"ill on bm-1 says that its digging is failing {since}: restarting"),
        ("warn", f"ill on bm-1 says that its broker is degraded {since}: away"),
        ("warn", "dead on bm-1 has said nothing for 60 s"),
    ]
    assert [one.remedy for one in found[1:3]] == ["restart it", "start it"]
    assert said(judge_processes([])) == [("warn", "none is running")]


@pytest.mark.service("postgresql")
async def test_the_doctor_sees_what_a_process_on_the_same_database_is_missing(
    start: Start,  # noqa: F811
    postgresql_url: str,
) -> None:
    broker_url = "amqp://guest:guest@127.0.0.1:1/"
    assert said(await check_processes(config(database_url=postgresql_url))) == [("warn", "none is running")]
    async with start(database_url=postgresql_url, broker_url=broker_url) as service:
        await service.house.health.look()
        assert service.presence is not None
        await service.presence.beat()
        [finding] = await check_processes(config(database_url=postgresql_url))
    assert finding.verdict is Verdict.WARN
    assert f"{service.store.origin} on " in finding.text
    assert "its broker is degraded since" in finding.text
    assert "VIRTFLOW_BROKER_URL" in finding.remedy


async def test_an_embedded_database_needs_no_votes() -> None:
    assert [verdict for verdict, _ in said(await check_election(config()))] == ["ok"]


@pytest.mark.service("postgresql")
async def test_who_is_in_office_is_told(
    start: Start,  # noqa: F811
    postgresql_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = config(database_url=postgresql_url, lease_s="1")
    assert [verdict for verdict, _ in said(await check_election(shared))] == ["warn", "warn"]
    async with start(database_url=postgresql_url, lease_s="1") as service:
        await service.scheduler.leading.wait()
        found = said(await check_election(shared))
        assert found[0] == ("ok", f"{service.store.origin} is the scheduler, in term 1")
    monkeypatch.setattr(election, "LOOK_S_MAX", 0.0)
    gone = config(database_url="postgresql://u@127.0.0.1:1/x")
    assert said(await check_election(gone)) == []  # said where the database is looked at


async def test_kubernetes_is_asked_whether_it_would_let_us(tmp_path: object) -> None:
    away = load_config(
        environ={
            "HOME": "/nowhere",
            "VIRTFLOW_DATABASE_URL": "postgresql://u@127.0.0.1:1/x",
            "VIRTFLOW_ELECTION": "kubernetes",
            "VIRTFLOW_KUBERNETES_URL": "http://127.0.0.1:1",
            "VIRTFLOW_KUBERNETES_ACCOUNT": str(tmp_path),
        },
        known_strategies=strategies.names(),
    )
    [finding] = await check_election(away)
    assert (finding.verdict, "there is no file token" in finding.text) == (Verdict.BAD, True)
