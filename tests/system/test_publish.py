"""A producer and a worker, each alone and real: what is published on one side is placed on the other."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from virtflow.store.contract import InstanceFilter
from virtflow.store.open import open_store
from virtflow.testing.cluster import cluster, wait_until

NOBODY_THERE = "amqp://127.0.0.1:1/"
SIZE = ("--cpu", "1", "--memory", "1GiB", "--pool", "general")


def publish(*words: str, settings: Mapping[str, str], given: str = "") -> subprocess.CompletedProcess[str]:
    """In a process of its own, as somebody would type it."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("VIRTFLOW_", "RABBITMQ"))}
    program = "import sys; from virtflow.cli.app import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", program, "publish", *words],
        env={**own, **{f"VIRTFLOW_{name.upper()}": value for name, value in settings.items()}},
        input=given, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


async def hosts_of(url: str) -> dict[str, str | None]:
    store = open_store(url, reading=True)
    await store.open()
    try:
        return {one.name: one.host for one in await store.instances(InstanceFilter(), limit=1000)}
    finally:
        await store.close()


def placed(url: str, names: Sequence[str]) -> bool:
    found = asyncio.run(hosts_of(url))
    return all(found.get(name) for name in names)


@pytest.mark.slow
@pytest.mark.service("postgresql", "rabbitmq")
@pytest.mark.xdist_group("rabbitmq")
async def test_a_producer_alone_and_a_worker_alone_place_what_is_asked_for(
    tmp_path: Path, new_postgresql_url: str, rabbitmq_url: str
) -> None:
    settings = {"database_url": new_postgresql_url, "broker_url": rabbitmq_url}

    def told() -> None:
        with cluster(tmp_path, **settings, role="scheduler", simulate="5") as them:
            worker = them.add("worker")
            them.start()
            them.wait_for_leader()

            single = publish("web", *SIZE, settings=settings)
            assert (single.returncode, single.stderr) == (0, "")
            assert single.stdout.startswith("web accepted: task ")

            listed = "- {name: a, cpu: 1, pool: general}\n- {name: b, resources: {cpu: 500}, pool: general}\n"
            many = publish("-f", "-", "-o", "json", settings=settings, given=listed)
            assert [one["vm"] for one in json.loads(many.stdout)] == ["a", "b"]

            counted = publish("vm", *SIZE, "--count", "30", "-o", "name", settings=settings)
            assert counted.stdout.splitlines() == [f"vm-{number}" for number in range(1, 31)]

            wait_until(lambda: placed(new_postgresql_url, ["web", "b", "vm-1", "vm-30"]))

            # without a broker it is accepted as well, and the log brings it
            alone = publish("late", *SIZE, settings={**settings, "broker_url": NOBODY_THERE})
            assert alone.returncode == 0
            assert "broker.lost" in alone.stderr
            wait_until(lambda: placed(new_postgresql_url, ["late"]))

            taken = publish("web", *SIZE, settings=settings)
            assert taken.returncode == 1
            assert taken.stderr.splitlines()[-2] == "virtflow: already in use: web"
            assert worker.terminate() == 0

    await asyncio.to_thread(told)


@pytest.mark.service("postgresql")
async def test_what_is_wrong_with_an_order_is_told_with_its_place(postgresql_url: str) -> None:
    listed = "- {cpu: 1, pool: default}\n- {cpu: 1, memory: 1G, strategy: luck}\n"
    refused = await asyncio.to_thread(
        lambda: publish("-f", "-", settings={"database_url": postgresql_url}, given=listed)
    )
    assert refused.returncode == 2
    assert "/items/" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert await hosts_of(postgresql_url) == {}


@pytest.mark.parametrize(
    ("url", "code", "because"),
    [
        ("virtflow.db", 78, "expected: postgresql://"),
        ("mysql://x/y", 78, "VIRTFLOW_DATABASE_URL"),
        ("postgresql://nobody@127.0.0.1:1/none", 1, "the database does not answer"),
    ],
)
def test_a_database_that_will_not_do_is_told_with_the_way_out(
    tmp_path: Path, url: str, code: int, because: str
) -> None:
    refused = publish("web", *SIZE, settings={"database_url": url.replace("virtflow.db", str(tmp_path / "v.db"))})
    assert refused.returncode == code
    assert because in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "v.db").exists()
