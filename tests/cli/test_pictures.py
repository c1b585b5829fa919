"""What is drawn, compared with texts that were looked at: golden/*.txt."""

import datetime
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import pytest
from tests.cli.conftest import GOLDEN, check_golden
from tests.cli.test_words import NOW

from virtflow.cli import events, fleet, hosts, outlets, pools, processes, strategies, tasks, vms
from virtflow.cli.about import draw_info
from virtflow.cli.capacity import draw_capacity
from virtflow.cli.explain import draw_preview
from virtflow.cli.refusal import draw_explanation
from virtflow.cli.screen import Screen
from virtflow.cli.table import Column, draw_table
from virtflow.client import records

NORMAL = Screen(width=80, now=NOW)
NARROW = Screen(width=50, now=NOW)
PIPE = Screen(width=None, has_blocks=False, now=NOW)
COLOURED = Screen(width=80, has_colour=True, now=NOW)
LATER = NOW - datetime.timedelta(minutes=7)
R = TypeVar("R", bound=records.Record)
TASK = "019a9a2b-7c1d-7e3f-8a4b-5c6d7e8f9a0b"


def answered(record: R) -> R:
    """As if a server had said it."""
    return records.read(msgspec.json.encode(record), type(record))


def host(number: int, **said: Any) -> records.Host:
    used = number * 2000
    fields = {
        "name": f"bm-{number:03d}",
        "pool": "general",
        "address": f"10.0.0.{number}",
        "capacity": {"cpu": 16000, "memory": 65536, "disk": 500},
        "labels": {"rack": "r1"},
        "zone": "z1",
        "model": "HPE ProLiant DL360 Gen10",
        "source": "simulated",
        "allocatable": {"cpu": 16000, "memory": 65536, "disk": 500, "vms": 64},
        "used": {"cpu": min(16000, used), "memory": min(65536, used * 2), "disk": 10 * number, "vms": number},
        "free": {"cpu": 16000 - min(16000, used), "memory": 65536 - min(65536, used * 2), "disk": 400, "vms": 60},
        "instances": number,
        "version": 3,
        "created_at": LATER,
        "updated_at": LATER,
        **said,
    }
    return answered(records.Host(**fields))


def vm(name: str, **said: Any) -> records.Vm:
    fields = {
        "name": name,
        "id": TASK,
        "task_id": TASK,
        "status": "pending",
        "pool": "general",
        "resources": {"cpu": 4000, "memory": 8192, "vms": 1},
        "generation": 1,
        "version": 2,
        "created_at": LATER,
        **said,
    }
    return answered(records.Vm(**fields))


REFUSAL = records.Explanation(
    code="insufficient_resources",
    text="the hosts that may carry it have not enough room now: of 40 hosts in pool general, 38 lack cpu, 2 memory",
    kind="capacity",
    hosts_considered=40,
    filters=(
        records.Refusals(filter="labels", hosts=31, alone=0),
        records.Refusals(filter="enough_room", hosts=38, alone=7),
    ),
    nearest=records.NearestMiss(host="bm-017", short={"memory": 2048}, text="bm-017: memory 2 GiB short"),
    changes=(
        records.Change(
            code="less", text="2048 MiB less memory: 9 hosts", hosts=9, request={"resources": {"memory": 6144}}
        ),
        records.Change(
            code="drop_label", text="without label gpu=a100: 2 hosts", hosts=2, request={"labels": {"gpu": None}}
        ),
        records.Change(code="other_pool", text='pool "": 1 host', hosts=1, request={"pool": ""}),
        records.Change(code="uncordon", text="hosts taken back into service: 1 host", hosts=1),
        records.Change(code="open_pool", text="the pool open for new work: 1 host", hosts=1),
        records.Change(code="something_new", text="something that this version does not know: 1 host", hosts=1),
    ),
)
ORDER = {
    "name": "web-1",
    "resources": {"cpu": 4000, "memory": 8192},
    "pool": "general",
    "labels": {"gpu": "a100", "os": "debian 12"},
}
PREVIEW = records.Preview(
    placeable=True,
    strategy="least_loaded",
    hosts_possible=41,
    winner=records.Candidate(
        host="bm-007",
        score=0.125,
        instances=3,
        parts=(
            records.ScorePart(name="busy cpu", weight=0.4, value=0.1),
            records.ScorePart(name="busy memory", weight=0.4, value=0.2),
            records.ScorePart(name="busy disk", weight=0.2, value=0.025),
        ),
    ),
    runners_up=(records.Candidate(host="bm-009", score=0.13, instances=4),),
)


def summary(pool: str, number: int, **said: int) -> records.PoolSummary:
    return records.PoolSummary(
        pool=pool,
        hosts=number,
        instances=number * 3,
        allocatable={"cpu": 16000 * number, "memory": 65536 * number, "disk": 500 * number},
        used={"cpu": 12000 * number, "memory": 20000 * number},
        **said,
    )


FLEET = records.Fleet(
    pools=(summary("", 2), summary("general", 9, cordoned=1, missing=1, self_hosts=1), summary("large", 150)),
    tasks={"completed": 1200, "queued": 3, "failed": 0},
    oldest_waiting_s=300.0,
    inventory=(
        records.Inventory(
            source="http", location="http://10.0.0.5:5000/nodes", state="stale", age_s=95.0, last_error="timed out"
        ),
    ),
)
FLEET_HOSTS = [
    host(1, pool="", dedicated=True),
    host(8, pool=""),
    *(host(number) for number in range(7)),
    host(7, cordoned=True, schedulable=False),
    host(8, missing_since=LATER, schedulable=False),
    *(host(number, pool="large", name=f"bm-{number:04d}", used={"cpu": number * 110}) for number in range(150)),
]


def listed(rows: Sequence[Any], columns: list[Column[Any]], screen: Screen, *, wide: bool = False) -> Iterable[str]:
    return draw_table(rows, columns, screen, wide=wide)


SOME_HOSTS = [
    host(1),
    host(2, cordoned=True, dedicated=True, pool=""),
    host(3, missing_since=LATER),
    host(4, carries_virtflow=True, schedulable=False),
]
SOME_VMS = [
    vm("web-1", host="bm-001", address="10.0.0.1"),
    vm("vm-019a9a2b7c1d7e3f8a4b5c6d7e8f9a0b"),
    vm(
        "db-1",
        status="running",
        host="bm-002",
        resources={"cpu": 500, "memory": 2048, "disk": 100, "gpu": 1, "licences": 2},
    ),
    vm("lost-1", status="unknown", host="bm-003"),
]
A_TASK = records.Task(
    task_id=TASK,
    vm="vm-019a9a2b7c1d7e3f8a4b5c6d7e8f9a0b",
    vm_id=TASK,
    state="failed",
    pool="general",
    resources={"cpu": 4000, "memory": 8192},
    priority=5,
    when_unplaceable="fail",
    attempts=3,
    accepted_at=LATER,
    ended_at=LATER + datetime.timedelta(seconds=18),
    duration_ms=18_000,
    code="insufficient_resources",
    reason="no host has room",
    history=(
        records.Step(at=LATER, state="queued", note=""),
        records.Step(
            at=LATER,
            state="processing",
            note="a note of several words that does not fit on one line of a terminal, so it is broken",
        ),
        records.Step(at=LATER, state="failed", note="no host has room"),
    ),
)
A_POOL = records.Pool(
    name="general",
    overcommit={"cpu": 4.0},
    strategy="",
    effective_strategy="least_loaded",
    hosts=9,
    version=2,
    updated_at=LATER,
)
CLOSED_POOL = msgspec.structs.replace(A_POOL, name="", accepts_work=False)
INFO = records.Info(version="9.9", database="sqlite:///x", strategy="best_fit", history_id="h")
AN_EVENT = records.Event(
    seq=1234,
    type="task.completed",
    kind="task",
    id=TASK,
    at=LATER,
    vm="web-1",
    host="bm-007",
    delta={"cpu": 4000, "memory": 8192},
)
AN_ELECTION = records.Event(
    seq=1233,
    type="leader.elected",
    kind="leader",
    id="scheduler",
    version=7,
    fence=7,
    at=LATER,
    origin="machine-17-4711-a1b2c3",
    text="decides now",
)
OUTLETS = [
    answered(
        records.Outlet(
            name="kafka", kind="kafka", state="failing", cursor=117, behind=20_000, behind_s=5000.0,
            failing_since=LATER,
            error="no broker listens there: see whether they run, and VIRTFLOW_EVENTS_KAFKA_SERVERS",
        )
    ),
    answered(records.Outlet(name="nats", kind="nats", state="ok", cursor=20_117)),
    answered(records.Outlet(name="old", kind="old", state="disabled", cursor=5, behind=20_112, behind_s=9e6)),
]  # fmt: skip
A_LEADER = answered(
    records.Process(
        id="bm-1-4711-0a1b2c",
        node="bm-1",
        roles=["scheduler", "relay"],
        offices=[records.Office(office="scheduler", term=7, since=LATER), records.Office(office="relay", term=3)],
        state="here",
        health="degraded",
        unwell=[
            records.Unwell(
                part="broker", status="degraded", since=LATER, cause="it does not answer in time", remedy="start it"
            )
        ],
        address="http://bm-1:8080",
        version="1.0.0",
        started_at=LATER,
        seen_at=NOW,
    )
)
A_SILENT_ONE = answered(
    records.Process(
        id="bm-2-4712-3d4e5f",
        node="bm-2",
        roles=["api"],
        state="silent",
        version="1.0.0",
        started_at=LATER,
        seen_at=LATER,
    )
)
A_STRATEGY = records.Strategy(
    name="best_fit",
    optimises="Packs: the host on which the smallest share of its processor, memory and disk would remain.",
    formula="sum of shares",
    weights={"cpu": 1.0},
    default=True,
)
CAPACITY = records.Capacity(
    resources={"cpu": 4000, "memory": 8192, "vms": 1},
    total=120,
    total_after_loss=110,
    pools=(
        records.PoolCapacity(pool="", hosts=2, total=20, total_after_loss=15, biggest_host="bm-002"),
        records.PoolCapacity(pool="general", hosts=40, total=100, total_after_loss=95),
    ),
)

PICTURES: dict[str, Iterable[str]] = {
    "hosts": listed(SOME_HOSTS, hosts.columns(NORMAL), NORMAL),
    "hosts-narrow": listed(SOME_HOSTS, hosts.columns(NARROW), NARROW),
    "hosts-wide": listed(SOME_HOSTS, hosts.columns(PIPE), PIPE, wide=True),
    "hosts-coloured": listed(SOME_HOSTS, hosts.columns(COLOURED), COLOURED),
    "host": hosts.draw_host(host(3, overcommit={"cpu": 4.0}, reserved={"memory": 2048}), SOME_VMS[:2], NORMAL),
    "vms": listed(SOME_VMS, vms.columns(NORMAL), NORMAL),
    "vms-narrow": listed(SOME_VMS, vms.columns(NARROW), NARROW),
    "vms-wide": listed(SOME_VMS, vms.columns(PIPE), PIPE, wide=True),
    "vm": vms.draw_vm(vm("web-1", host="bm-001", address="10.0.0.1", placed_at=LATER), NORMAL),
    "vm-waiting": vms.draw_vm(vm("web-1", explanation=REFUSAL), NORMAL),
    "tasks": listed([A_TASK], tasks.columns(NORMAL), NORMAL),
    "tasks-pipe": listed([A_TASK], tasks.columns(PIPE), PIPE),
    "task": tasks.draw_task(A_TASK, NORMAL),
    "pools": listed([A_POOL, CLOSED_POOL], pools.columns(NORMAL), NORMAL),
    "pool": pools.draw_pool(A_POOL, FLEET.pools[1], NORMAL),
    "processes": listed([A_LEADER, A_SILENT_ONE], processes.columns(NORMAL), NORMAL),
    "processes-wide": listed([A_LEADER, A_SILENT_ONE], processes.columns(PIPE), PIPE, wide=True),
    "strategies": listed([A_STRATEGY], strategies.columns(NORMAL), NORMAL),
    "preview": draw_preview(PREVIEW, ORDER, NORMAL),
    "refusal": draw_preview(records.Preview(placeable=False, explanation=REFUSAL), ORDER, NORMAL),
    "refusal-existing": draw_explanation(REFUSAL, ORDER, COLOURED, exists=True),
    "capacity": draw_capacity(CAPACITY, NORMAL),
    "fleet": fleet.draw_fleet(FLEET, FLEET_HOSTS, NORMAL),
    "fleet-ascii": fleet.draw_fleet(FLEET, FLEET_HOSTS, PIPE),
    "fleet-coloured": fleet.draw_fleet(FLEET, FLEET_HOSTS[:4], COLOURED),
    "event": [events.draw_event(AN_EVENT, NORMAL)],
    "event-wide": [events.draw_event(AN_EVENT, NORMAL, is_wide=True)],
    "event-cluster": [events.draw_event(event, PIPE, with_process=True) for event in (AN_ELECTION, AN_EVENT)],
    "outlets": draw_table(OUTLETS, outlets.columns(NORMAL), NORMAL),
    "outlets-wide": draw_table(OUTLETS, outlets.columns(PIPE), PIPE, wide=True),
    "info": draw_info(INFO, "http://x", NORMAL),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_as_they_were_looked_at(name: str) -> None:
    check_golden(name, "\n".join(PICTURES[name]) + "\n")


@pytest.mark.parametrize(
    "name", [name for name in PICTURES if not name.endswith(("wide", "pipe", "narrow", "coloured", "existing"))]
)
def test_what_is_no_command_fits_the_screen(name: str) -> None:
    for line in (GOLDEN / f"{name}.txt").read_text().splitlines():
        assert len(line) <= 80 or "virtflow " in line
