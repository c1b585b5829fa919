"""Placed and durable through HTTP: singles and batches, on each database and each kind of file system.

Nothing is believed. After the load the server is killed, started again, and asked what each host carries: it must be
exactly what was acknowledged before, in every dimension.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench import world
from bench.load import Job, Outcome, run_load
from bench.machine import Folder, Fsync, fsync_times, slower
from bench.postgres import postgresql_in
from bench.server import Server
from bench.warm import warm_up

SQLITE, POSTGRESQL = "sqlite", "postgresql"
SINGLES_CONNECTIONS = 64
BATCH_CONNECTIONS = 4
BATCH = 1_000
HOSTS_PER_REQUEST = 5_000
PAGE = 1_000
FSYNC_S = 0.4
#: so long the last tasks may need to settle before they are counted
SETTLE_S_MAX = 10.0


class WrongCount(Exception):
    """What was acknowledged is not what is there. No figure of such a run is worth anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of everything."""

    hosts: int = 10_000
    singles_s: float = 4.0
    warm_up_s: float = 1.0
    batch_vms: int = 1_000_000
    batch_s_max: float = 25.0


QUICK = Plan(singles_s=1.5, warm_up_s=0.5, batch_vms=100_000, batch_s_max=10.0)
FULL = Plan()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One kind of load on one database."""

    database: str
    place: str
    kind: str
    connections: int
    #: the slower of before and after, since a disk slows down when it is asked often
    fsync: Fsync
    outcome: Outcome
    #: processor time of the server process for each VM, all its threads
    server_us_per_vm: float
    server_cores: float
    resident_bytes: int

    def document(self) -> dict[str, object]:
        return {**asdict(self), "fsync": self.fsync._asdict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was counted after the server was killed and started again."""

    database: str
    place: str
    accepted: int
    restart_s: float
    resident_bytes: int


def measure(places: Iterable[tuple[str, Folder]], plan: Plan) -> Iterator[Measured | Verified]:
    """On each database: singles by both doors, then batches, then the truth."""
    for database, folder in places:
        yield from _measure_one(database, folder, plan)


def _measure_one(database: str, folder: Folder, plan: Plan) -> Iterator[Measured | Verified]:
    with database_in(database, folder.path) as url, Server(url, folder=folder.path) as server:
        register_hosts(server, plan.hosts)
        total = Outcome()
        total.add(warm_up(server.port, [server.pid]))
        for job in _jobs(server.port, plan):
            measured = _measure_job(server, job, database, folder)
            total.add(measured.outcome)
            yield measured
        settle(server)
        server.kill()
        restart_s = server.start()
        check(server, total)
        yield Verified(
            database=database,
            place=folder.name,
            accepted=total.accepted,
            restart_s=restart_s,
            resident_bytes=server.resident_bytes(),
        )


def _jobs(port: int, plan: Plan) -> list[Job]:
    single = Job(
        port=port, kind="schedule", connections=SINGLES_CONNECTIONS, seconds=plan.singles_s, warm_up_s=plan.warm_up_s
    )
    batch = Job(
        port=port,
        kind="batch",
        connections=BATCH_CONNECTIONS,
        batch=BATCH,
        vms=plan.batch_vms,
        seconds=plan.batch_s_max,
    )
    return [single, replace(single, kind="vm"), batch]


def _measure_job(server: Server, job: Job, database: str, folder: Folder) -> Measured:
    before = fsync_times(folder.path, seconds=FSYNC_S)
    processor_s, started_s = server.processor_s(), time.perf_counter()
    outcome = run_load(job)
    wall_s = time.perf_counter() - started_s
    used_s = server.processor_s() - processor_s
    _refuse_refusals(outcome)
    return Measured(
        database=database,
        place=folder.name,
        kind=job.kind,
        connections=job.connections,
        fsync=slower(before, fsync_times(folder.path, seconds=FSYNC_S)),
        outcome=outcome,
        server_us_per_vm=used_s / max(1, outcome.accepted) * 1e6,
        server_cores=used_s / wall_s,
        resident_bytes=server.resident_bytes(),
    )


@contextlib.contextmanager
def database_in(database: str, folder: Path) -> Iterator[str]:
    """The URL of an empty database there."""
    if database == POSTGRESQL:
        with postgresql_in(folder) as url:
            yield url
        return
    place = folder / "sqlite"
    place.mkdir()
    yield f"sqlite:///{place / 'virtflow.db'}"


def register_hosts(server: Server, count: int) -> None:
    documents = world.hosts(count)
    for start in range(0, count, HOSTS_PER_REQUEST):
        server.post("/v1/hosts/batch", {"items": documents[start : start + HOSTS_PER_REQUEST]})


# ── the truth ─────────────────────────────────────────────────────────────────────────────────────


def settle(server: Server) -> None:
    """Waits until no task waits any longer."""
    end_s = time.perf_counter() + SETTLE_S_MAX
    while _waiting(server.get("/v1/fleet")["tasks"]):
        if time.perf_counter() > end_s:
            raise WrongCount(f"tasks still wait although there is room: {server.get('/v1/fleet')['tasks']}")
        time.sleep(0.05)


def check(server: Server, expected: Outcome) -> None:
    """Exactly what was acknowledged is placed: by the tasks, and by what each host carries."""
    tasks = server.get("/v1/fleet")["tasks"]
    found = {"completed": tasks["completed"], **_ledger(server)}
    wanted = {"completed": expected.accepted, "instances": expected.accepted, **expected.resources}
    wrong = {name: (amount, found.get(name, 0)) for name, amount in wanted.items() if found.get(name, 0) != amount}
    if wrong:
        raise WrongCount(f"acknowledged and found differ: {wrong}")


def _ledger(server: Server) -> dict[str, int]:
    """What all hosts carry. No host carries more than it may."""
    sums: dict[str, int] = {"instances": 0}
    cursor = ""
    while True:
        page = server.get(f"/v1/hosts?limit={PAGE}" + (f"&cursor={cursor}" if cursor else ""))
        for host in page["items"]:
            sums["instances"] += host["instances"]
            for name, amount in host["used"].items():
                if amount > host["allocatable"].get(name, 0):
                    raise WrongCount(f"{host['name']} carries {amount} {name} of {host['allocatable'].get(name, 0)}")
                sums[name] = sums.get(name, 0) + amount
        cursor = page["next"]
        if not cursor:
            return sums


def _waiting(tasks: dict[str, int]) -> int:
    return tasks["queued"] + tasks["processing"]


def _refuse_refusals(outcome: Outcome) -> None:
    if set(outcome.statuses) != {"202"} or outcome.unplaced:
        raise WrongCount(
            f"answers {outcome.statuses}, {outcome.unplaced} VMs without a host; first refusal: {outcome.first_refusal}"
        )
