"""What holds for every queue: the database alone, a wire inside the test, and a real RabbitMQ.

Two processes' worth of virtflow share a PostgreSQL database; one leads, the other accepts.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.control.conftest import config, host, order, wish
from tests.control.test_cluster import Pair, soon, violations
from tests.control.test_schedule import create, register, until_placed

from virtflow.engine.decide import warm_up
from virtflow.main import build
from virtflow.main import service as main
from virtflow.model.names import id_to_text
from virtflow.model.task import WhenUnplaceable
from virtflow.queue import Queue
from virtflow.testing.election import Assembly
from virtflow.testing.queue import Wire

pytestmark = [pytest.mark.service("postgresql", "rabbitmq"), pytest.mark.slow, pytest.mark.xdist_group("rabbitmq")]

Together = Callable[..., contextlib.AbstractAsyncContextManager[Pair]]
NOBODY_THERE = "amqp://127.0.0.1:1/"


@pytest.fixture(autouse=True, scope="session")
def _compiled() -> None:
    """The first decision of a process may compile the engine, which takes seconds."""
    warm_up()


def is_carried_by_messages(kind: str) -> bool:
    return kind in {"wire", "rabbitmq"}


@pytest.fixture(params=["database", "wire", "rabbitmq", "broker down"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def flags(kind: str, request: pytest.FixtureRequest) -> dict[str, str]:
    if kind == "rabbitmq":
        return {"broker_url": str(request.getfixturevalue("rabbitmq_url"))}
    return {"broker_url": NOBODY_THERE} if kind == "broker down" else {}


@pytest.fixture
def together(
    kind: str, flags: dict[str, str], postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Together:
    monkeypatch.setattr(main, "LEAD_AT_START_S_MAX", 0.02)

    @contextlib.asynccontextmanager
    async def running(*, is_deaf: bool = False) -> AsyncIterator[Pair]:
        """`is_deaf`: the leader hears nothing from the log, so that only messages can bring it a task."""
        assembly, wire = Assembly(), Wire()
        given = {"database_url": postgresql_url, "tick_s": "30", "retry_wait_s": "0.02", **flags}
        services = [
            build(
                config(tmp_path / "unused.db", **given),
                inventories=[],
                election=assembly.candidate(),
                queue=wire if kind == "wire" else None,
            )
            for _ in range(2)
        ]
        async with services[0].running(), services[1].running():
            if is_deaf:
                for service in services:
                    service.follower._accepted = _hear_nothing
            yield Pair(services[0], services[1], assembly)
        assert await violations(postgresql_url) == []

    return running


async def _hear_nothing(ids: object) -> None:
    pass


async def test_what_one_accepts_the_other_places_without_waiting_for_the_clock(together: Together) -> None:
    async with together() as pair:
        await register(pair.leader, host("bm-1", cores=50))
        views = await create(pair.follower, *(order(f"vm-{n}") for n in range(30)))
        assert {view.instance.host for view in views} == {None}
        for view in views:
            assert (await until_placed(pair.follower, view.instance.name)).host == "bm-1"


async def test_messages_alone_bring_the_tasks(kind: str, together: Together) -> None:
    if not is_carried_by_messages(kind):
        return  # the log alone does, above
    async with together(is_deaf=True) as pair:
        await register(pair.leader, host("bm-1", cores=50))
        for n in range(3):
            await create(pair.follower, order(f"vm-{n}"))
            assert (await until_placed(pair.follower, f"vm-{n}")).host == "bm-1"
        await create(pair.follower, *(order(f"gang-{n}") for n in range(3)), together=True)
        assert (await until_placed(pair.follower, "gang-2")).host == "bm-1"


async def test_a_change_of_the_lead_loses_and_doubles_nothing(together: Together) -> None:
    async with together() as pair:
        await register(pair.leader, host("bm-1", cores=100))
        names = []
        for n in range(4):
            names += [view.instance.name for view in await create(pair.follower, order(f"a-{n}"), order(f"b-{n}"))]
            await pair.change_the_lead()
        for name in names:
            await until_placed(pair.first, name)
        counts = await pair.first.store.counts()
        assert (counts.instances, counts.instances_placed) == (8, 8)


async def test_knocks_that_come_twice_or_for_nobody_do_no_harm(together: Together) -> None:
    async with together() as pair:
        await register(pair.leader, host("bm-1"))
        (view,) = await create(pair.follower, order("web"))
        await until_placed(pair.follower, "web")
        for _ in range(3):
            pair.follower.queue.call([view.task_id, b"\x00nobody", b"\xff" * 16])
        await pair.follower.queue.flush()
        await create(pair.follower, order("next"))
        assert (await until_placed(pair.follower, "next")).host == "bm-1"
        assert (await pair.first.store.counts()).instances == 2


async def test_what_fails_leaves_a_letter_and_can_be_sent_again_anywhere(together: Together) -> None:
    async with together() as pair:
        await register(pair.leader, host("bm-1", cores=1))
        (view,) = await create(pair.follower, order("web", want=wish(cores=2), when_unplaceable=WhenUnplaceable.FAIL))
        letter = id_to_text(view.task_id)

        async def has_a_letter() -> bool:
            return await pair.follower.store.dead_letter(letter) is not None

        await soon(has_a_letter)
        await register(pair.follower, host("bm-2", cores=2))
        sent = await pair.follower.house.dead.requeue(letter, actor="test")
        assert sent.requeued_as
        assert (await until_placed(pair.leader, "web")).host == "bm-2"


async def test_health_stays_green_and_notes_a_broker_that_is_away(kind: str, together: Together) -> None:
    async with together() as pair:
        report = await pair.follower.house.health.check()
        assert report.ok
        noted = report.parts.get("broker")
        if kind == "broker down":
            assert noted is not None
            assert noted.startswith("degraded: ")
            assert "virtflow_queue_up 0.0" in (await pair.follower.house.metrics.text()).decode()
        else:
            assert noted in {None, "ok"}


# ── the contract itself ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def queue(kind: str, flags: dict[str, str], tmp_path: Path) -> AsyncIterator[Queue]:
    """Open, with neither of its loops running."""
    queue = Wire() if kind == "wire" else build(config(tmp_path / "virtflow.db", **flags), inventories=[]).queue
    await queue.open()
    yield queue
    await queue.close()


async def test_calling_never_waits_and_never_fails(queue: Queue) -> None:
    began_s = time.monotonic()
    for number in range(200):
        queue.call([number.to_bytes(16, "big")] * 500)
        queue.bury([number.to_bytes(16, "big")])
    queue.call([])
    assert time.monotonic() - began_s < 2.0


async def test_its_loops_end_when_they_are_told_to(queue: Queue) -> None:
    async def nothing(_: object) -> None:
        pass

    for loop in (queue.publish(), queue.listen(nothing, nothing)):
        task = asyncio.ensure_future(loop)
        await asyncio.sleep(0.05)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(5):
                await task


async def test_closing_twice_is_fine(queue: Queue) -> None:
    await queue.close()
    await queue.close()
