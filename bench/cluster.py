"""`python -m bench.cluster`: several processes on one PostgreSQL, by the number of those that serve the API.

Each line is an arrangement of processes on a fresh database: one with all roles, or so many with the role `api` and one
that schedules. Two rates are told: what was accepted (durable, answered with 202), and what was placed, from the first
request until the last VM had its host. Nothing is believed: what was acknowledged is counted afterwards, host by host.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from bench import figures, http, machine, report
from bench.load import Job, Outcome, run_load
from bench.machine import Folder, Fsync, fsync_times, processor_s
from bench.postgres import postgresql_in
from bench.report import Figure
from bench.warm import warm_up
from virtflow.testing.cluster import Cluster, Process, cluster
from virtflow.testing.rabbitmq import find_program, rabbitmq_server

#: until the last of them has a host, after the last answer
PLACED_S_MAX = 120.0
ASK_S_MAX = 60.0
THROUGHPUT = "throughput"
PARTS = (THROUGHPUT, "failover", "webhooks", "tracing")
BATCH_GOAL, SINGLE_GOAL = 100_000, 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One arrangement of processes."""

    #: with the role `api` alone; 0: one process does everything
    apis: int
    broker: bool

    @property
    def name(self) -> str:
        served = "one process with all roles" if self.apis == 0 else f"{self.apis} api, 1 scheduler"
        return f"{served}, {'RabbitMQ' if self.broker else 'no broker'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    line: Line
    kind: str
    outcome: Outcome
    placed_per_s: float
    fsync: Fsync
    #: of all our processes together, without the databases
    server_us_per_vm: float

    def document(self) -> dict[str, object]:
        return {**asdict(self), "fsync": self.fsync._asdict(), "line": asdict(self.line) | {"name": self.line.name}}


class Asked:
    """A process as the counting of `bench.http` wants it."""

    def __init__(self, process: Process) -> None:
        self._client = httpx.Client(base_url=process.url, timeout=ASK_S_MAX)

    def close(self) -> None:
        self._client.close()

    def get(self, path: str) -> Any:
        return self._client.get(path).raise_for_status().json()

    def post(self, path: str, body: object) -> Any:
        return self._client.post(path, json=body).raise_for_status().json()


def measure(
    lines: Sequence[Line], folder: Folder, *, plan: http.Plan, broker_url: Callable[[], str]
) -> Iterator[Measured]:
    for number, line in enumerate(lines):
        place = folder.path / f"cluster-{number}"
        place.mkdir(mode=0o755)
        with (
            postgresql_in(place) as url,
            cluster(
                place / "logs", database_url=url, log_level="warning", broker_url=broker_url() if line.broker else ""
            ) as them,
        ):
            _arrange(them, line)
            yield from _measure_line(them, line, plan, place)


def _arrange(them: Cluster, line: Line) -> None:
    if line.apis:
        them.add("scheduler", role="scheduler,relay")
    for number in range(max(1, line.apis)):
        them.add(f"api-{number}", role="api" if line.apis else "all")
    them.start()
    them.wait_for_leader()


def _measure_line(them: Cluster, line: Line, plan: http.Plan, place: Path) -> Iterator[Measured]:
    apis = [process for process in them if process.name.startswith("api")]
    with closing(Asked(apis[0])) as asked:
        yield from _measure_kinds(them, line, plan, place, apis, asked)


def _measure_kinds(
    them: Cluster, line: Line, plan: http.Plan, place: Path, apis: Sequence[Process], asked: Asked
) -> Iterator[Measured]:
    total = Outcome()
    http.register_hosts(asked, plan.hosts)  # type: ignore[arg-type]
    total.add(warm_up(apis[0].port, [process.pid for process in them]))
    for kind in ("vm", "batch"):
        fsync = fsync_times(place, seconds=http.FSYNC_S)
        before_s, began_s = _processor_s(them), time.perf_counter()
        outcome = run_load(_job(kind, [process.port for process in apis], plan))
        if set(outcome.statuses) != {"202"}:
            raise http.WrongCount(f"answers {outcome.statuses}; first refusal: {outcome.first_refusal}")
        _wait_until_placed(asked)
        wall_s = time.perf_counter() - began_s
        total.add(outcome)
        yield Measured(
            line=line,
            kind=kind,
            outcome=outcome,
            placed_per_s=outcome.accepted / wall_s,
            fsync=http.slower(fsync, fsync_times(place, seconds=http.FSYNC_S)),
            server_us_per_vm=(_processor_s(them) - before_s) / max(1, outcome.accepted) * 1e6,
        )
    http.check(asked, total)  # type: ignore[arg-type]


def _job(kind: str, ports: Sequence[int], plan: http.Plan) -> Job:
    is_batch = kind == "batch"
    return Job(
        port=ports[0],
        ports=tuple(ports),
        kind=kind,
        # as many as in `make bench`, shared among the processes
        connections=http.BATCH_CONNECTIONS if is_batch else http.SINGLES_CONNECTIONS,
        batch=http.BATCH,
        vms=plan.batch_vms if is_batch else 0,
        seconds=plan.batch_s_max if is_batch else plan.singles_s,
        warm_up_s=0.0 if is_batch else plan.warm_up_s,
    )


def _wait_until_placed(asked: Asked) -> None:
    end_s = time.perf_counter() + PLACED_S_MAX
    while (tasks := asked.get("/v1/fleet")["tasks"])["queued"] + tasks["processing"]:
        if time.perf_counter() > end_s:
            raise http.WrongCount(f"tasks still wait although there is room: {tasks}")
        time.sleep(0.02)


def _processor_s(them: Cluster) -> float:
    return sum(processor_s(process.pid) for process in them)


# ── figures ───────────────────────────────────────────────────────────────────────────────────────


def figures_of(found: Sequence[Measured]) -> list[Figure]:
    """`beside` compares with one process that serves the API, of the same run and without a broker."""
    base = {one.kind: one.outcome.vms_per_s for one in reversed(found) if one.line.apis == 1 and not one.line.broker}
    made = []
    for one in found:
        is_batch = one.kind == "batch"
        ratio = f"{one.outcome.vms_per_s / base[one.kind]:.2f}× one api, " if base.get(one.kind) else ""
        made.append(
            Figure(
                key=f"cluster.{one.kind}.{one.line.apis}.{'rabbitmq' if one.line.broker else 'none'}",
                what=f"{'batches of 1,000' if is_batch else 'singles'}, {one.line.name}",
                measured=one.outcome.vms_per_s,
                unit="VMs/s",
                goal=BATCH_GOAL if is_batch else SINGLE_GOAL,
                beside=f"{ratio}placed {one.placed_per_s:,.0f}/s, p50 {one.outcome.p50_ms:.1f} ms, "
                f"p99 {one.outcome.p99_ms:.1f} ms, {one.server_us_per_vm:.0f} µs/VM, fsync {one.fsync.p50_ms:.2f} ms",
            )
        )
    return made


def main(argv: Sequence[str]) -> int:
    options = _options(argv)
    started_s = time.perf_counter()
    described = machine.describe()
    made: list[Figure] = []
    details: dict[str, Any] = {}
    with machine.work_folders(options.work) as folders:
        described["fsync"] = {folder.name: fsync_times(folder.path)._asdict() for folder in folders[:1]}
        print("\n".join(report.machine_lines(described)), flush=True)
        for part in options.only:
            print(f"measuring: {part}", file=sys.stderr, flush=True)
            try:
                found, more = _measure_part(part, folders[0], options)
            except http.WrongCount as wrong:
                print(f"WRONG: {wrong}", file=sys.stderr)
                return 1
            made += found
            details |= more
    print("\n" + report.table(made) + f"\n\n{time.perf_counter() - started_s:.0f} s")
    print(json.dumps({
        "machine": described,
        "quick": options.quick,
        "figures": [figure.document() for figure in made],
        **details,
    }))  # fmt: skip
    return 0


def _measure_part(part: str, folder: Folder, options: argparse.Namespace) -> figures.Found:
    match part:
        case "failover":
            return figures.measure_failover(folder, quick=options.quick)
        case "webhooks":
            return figures.measure_webhooks([http.POSTGRESQL], folder, quick=options.quick)
        case "tracing":
            return figures.measure_tracing(folder, quick=options.quick)
        case _:
            return _measure_throughput(folder, options)


def _measure_throughput(folder: Folder, options: argparse.Namespace) -> figures.Found:
    plan = http.QUICK if options.quick else http.Plan(batch_vms=200_000)
    brokers = _brokers(options.broker)
    lines = [Line(apis=apis, broker=broker) for broker in brokers for apis in options.apis]
    found: list[Measured] = []
    with ExitStack() as stack:
        server = stack.enter_context(rabbitmq_server()) if any(brokers) else None
        for one in measure(lines, folder, plan=plan, broker_url=lambda: server.new_vhost() if server else ""):
            found.append(one)
            print(f"  {one.line.name}, {one.kind}: {one.outcome.vms_per_s:,.0f} VMs/s", file=sys.stderr, flush=True)
    return figures_of(found), {"cluster": [one.document() for one in found]}


def _brokers(asked: str) -> list[bool]:
    """Without, with."""
    if asked == "none":
        return [False]
    try:
        find_program("rabbitmq-server")
    except FileNotFoundError:
        print("no RabbitMQ on this machine: measured without", file=sys.stderr)
        return [False]
    return [True] if asked == "rabbitmq" else [False, True]


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller numbers")
    parser.add_argument(
        "--apis", type=_counts, default=[0, 1, 2, 4], help="processes that serve the API, as 0,1,2,4; 0: one for all"
    )
    parser.add_argument("--only", type=_parts, default=list(PARTS), metavar="PARTS", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--broker", choices=("none", "rabbitmq", "both"), default="both")
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk to measure on"
    )
    return parser.parse_args(argv)


def _parts(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return names


def _counts(text: str) -> list[int]:
    counts = [int(word) for word in text.split(",")]
    if not all(0 <= count <= 64 for count in counts):
        raise argparse.ArgumentTypeError("from 0 to 64, with commas between")
    return counts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
