"""What Prometheus reads. Gauges are computed anew at each scrape, never accumulated."""

import asyncio
import bisect
import itertools
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from virtflow.control.dead import Dead
from virtflow.control.inventories import Inventories
from virtflow.control.outlets import Outlets
from virtflow.control.processes import Processes
from virtflow.control.schedule import Scheduler
from virtflow.control.strategy_file import StrategyFile
from virtflow.control.summary import Summary
from virtflow.control.webhooks import Webhooks
from virtflow.election import Election
from virtflow.model.errors import VirtflowError
from virtflow.model.process import ProcessView
from virtflow.model.views import FleetSummary, OutletView, WebhookView
from virtflow.model.webhook import WebhookState

#: who scrapes waits for ten seconds by default
FLEET_S_MAX = 8.0

#: every name with its labels and meaning; docs/metrics.md is tested against it
METRICS: dict[str, tuple[tuple[str, ...], str]] = {
    "virtflow_requests_total": (("route", "status"), "HTTP requests answered"),
    "virtflow_request_duration_seconds": (("route",), "time to answer an HTTP request"),
    "virtflow_scheduler_placements_total": (("strategy", "outcome"), "tasks decided: placed, queued, retried, failed"),
    "virtflow_scheduler_time_to_schedule_seconds": ((), "acceptance to placement"),
    "virtflow_scheduler_round_duration_seconds": ((), "one round of the loop, decision to durable commit"),
    "virtflow_hosts": (("pool", "state"), "hosts: schedulable, cordoned, missing, self (they carry virtflow)"),
    "virtflow_pool_resource": (("pool", "dimension", "kind"), "per pool and dimension: total, allocatable, used"),
    "virtflow_instances": (("state",), "instances: placed, waiting"),
    "virtflow_tasks": (("state",), "tasks by state"),
    "virtflow_pending_age_seconds_max": ((), "age of the oldest task that is not over"),
    "virtflow_inventory_age_seconds": (("source", "location"), "time since the last good answer"),
    "virtflow_inventory_up": (("source", "location"), "1 when the last answer was good"),
    "virtflow_inventory_skipped_records": (("source", "location"), "records of the last answer that were not usable"),
    "virtflow_scheduler_up": ((), "1 when this process schedules"),
    "virtflow_leader": (("office",), "1 when this process holds the office: scheduler, relay"),
    "virtflow_term": (("office",), "the number of the newest term of this process; 0 before the first"),
    "virtflow_fence": ((), "the newest fence that this process took; 0 before the first"),
    "virtflow_processes": (("role",), "processes on this database that were heard of lately"),
    "virtflow_strategy_file_up": ((), "1 when the strategy file is in use as it is, 0 when an older word is kept"),
    "virtflow_part_up": (
        ("part",),
        "1 when a part of this process is well, 0 when it is degraded or failing (/healthz says why)",
    ),
    "virtflow_database_up": (
        (),
        "1 when the database answered this scrape; without it there are no gauges of the fleet",
    ),
    "virtflow_queue_published_total": (("outcome",), "messages to the broker, by what became of each try"),
    "virtflow_queue_lost_calls_total": ((), "tasks that the broker was not told of; the log and the scan find them"),
    "virtflow_queue_consumed_total": (("outcome",), "messages of the broker: looked_at, retried, dead"),
    "virtflow_queue_up": ((), "1 when the way of knocks works, 0 when the log carries them alone"),
    "virtflow_dead_letters": (("kind",), "dead letters that nobody has sent again"),
    "virtflow_outlet_up": (("outlet",), "1 when it is told of events, 0 when that fails"),
    "virtflow_outlet_lag_events": (("outlet",), "events it has not been told of"),
    "virtflow_outlet_lag_seconds": (("outlet",), "age of the oldest event it has not been told of"),
    "virtflow_outlet_left_behind_events_total": (("outlet",), "events forgotten before it was told of them"),
    "virtflow_relay_events_total": (("outlet",), "events that this process told it of"),
    "virtflow_relay_failures_total": (("outlet",), "tries of this process to tell it that failed"),
    "virtflow_loop_restarts_total": (("loop",), "loops of this process that failed and were started again"),
    "virtflow_webhook_deliveries_total": (("webhook", "outcome"), "messages tried: delivered, failed, dead"),
    "virtflow_webhook_duration_seconds": ((), "time until a receiver had answered, or until it was given up"),
    "virtflow_webhook_messages": (
        ("webhook", "state"),
        "messages in the queue of a receiver, and given up: waiting, dead",
    ),
    "virtflow_webhook_up": (("webhook",), "1 when the receiver takes its messages; 0 when it fails or is disabled"),
}


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = self._counter("virtflow_requests_total")
        self._request_s = self._histogram("virtflow_request_duration_seconds")
        self._placements = self._counter("virtflow_scheduler_placements_total")
        self._to_schedule_s = _Histogram("virtflow_scheduler_time_to_schedule_seconds")
        self._registry.register(self._to_schedule_s)
        self._round_s = self._histogram("virtflow_scheduler_round_duration_seconds")
        self._restarts = self._counter("virtflow_loop_restarts_total")
        self._published = self._counter("virtflow_queue_published_total")
        self._lost_calls = self._counter("virtflow_queue_lost_calls_total")
        self._consumed = self._counter("virtflow_queue_consumed_total")
        self._queue_state: Callable[[], str] | None = None
        self._dead: Dead | None = None
        self._told = self._counter("virtflow_relay_events_total")
        self._untold = self._counter("virtflow_relay_failures_total")
        self._left_behind = self._counter("virtflow_outlet_left_behind_events_total")
        self._deliveries = self._counter("virtflow_webhook_deliveries_total")
        self._delivery_s = self._histogram("virtflow_webhook_duration_seconds")
        self._requests_by: dict[tuple[str, int], Counter] = {}
        self._summary: Summary | None = None
        self._scheduler: Scheduler | None = None
        self._inventories: Inventories | None = None
        self._strategy_file: StrategyFile | None = None
        self._outlets: Outlets | None = None
        self._processes: Processes | None = None
        self._elections: Sequence[Election] = ()
        self._webhooks: Webhooks | None = None
        self._parts: Callable[[], Mapping[str, bool]] = dict

    def read_from(
        self,
        *,
        summary: Summary,
        scheduler: Scheduler,
        inventories: Inventories,
        outlets: Outlets,
        processes: Processes | None = None,
        elections: Sequence[Election] = (),
        strategy_file: StrategyFile | None = None,
        dead: Dead | None = None,
        queue_state: Callable[[], str] | None = None,
        webhooks: Webhooks | None = None,
        parts: Callable[[], Mapping[str, bool]] = dict,
    ) -> None:
        """Where the gauges come from; main connects it once everything is built."""
        self._summary, self._scheduler, self._inventories = summary, scheduler, inventories
        self._outlets, self._strategy_file = outlets, strategy_file
        self._dead, self._queue_state = dead, queue_state
        self._processes, self._elections = processes, elections
        self._webhooks = webhooks
        self._parts = parts

    def observe_request(self, route: str, status: int, seconds: float) -> None:
        counter = self._requests_by.get((route, status))
        if counter is None:
            counter = self._requests_by[route, status] = self._requests.labels(route, str(status))
        counter.inc()
        self._request_s.labels(route).observe(seconds)

    def observe_decisions(self, outcome: str, strategies: Iterable[str]) -> None:
        for strategy, count in Counts(strategies).items():
            self._placements.labels(strategy or "default", outcome).inc(count)

    def observe_placed(self, waited_s: Iterable[float]) -> None:
        """Batches wait equally long, so equal times are counted first and entered once."""
        for seconds, count in Counts(waited_s).items():
            self._to_schedule_s.observe(seconds, count)

    def observe_restart(self, loop: str) -> None:
        self._restarts.labels(loop).inc()

    def observe_published(self, outcome: str) -> None:
        self._published.labels(outcome).inc()

    def observe_confirmed(self, tasks: Sequence[bytes]) -> None:
        """Counted as messages."""

    def observe_lost_calls(self, tasks: int) -> None:
        self._lost_calls.inc(tasks)

    def observe_consumed(self, outcome: str) -> None:
        self._consumed.labels(outcome).inc()

    def observe_told(self, outlet: str, events: int) -> None:
        self._told.labels(outlet).inc(events)

    def observe_failure(self, outlet: str) -> None:
        self._untold.labels(outlet).inc()

    def observe_left_behind(self, outlet: str, events: int) -> None:
        self._left_behind.labels(outlet).inc(events)

    def observe_round(self, seconds: float) -> None:
        self._round_s.observe(seconds)

    def observe_delivery(self, webhook: str, outcome: str, seconds: float) -> None:
        self._deliveries.labels(webhook, outcome).inc()
        self._delivery_s.observe(seconds)

    async def text(self) -> bytes:
        gauges = CollectorRegistry()
        for name, labels, value in [*await self._of_the_fleet(), *self._of_this_process()]:
            _set(gauges, name, labels, value)
        return generate_latest(self._registry) + generate_latest(gauges)

    async def _of_the_fleet(self) -> Sequence[tuple[str, tuple[str, ...], float]]:
        """A database that is away takes these gauges along, and nothing else."""
        if self._summary is None:
            return ()
        try:
            async with asyncio.timeout(FLEET_S_MAX):
                fleet = await self._summary.fleet()
                dead = {} if self._dead is None else await self._dead.counts()
                outlets = await self._outlets.list() if self._outlets is not None else ()
                processes = await self._processes.list() if self._processes is not None else ()
                webhooks = await self._webhooks.list() if self._webhooks is not None else ()
        except (VirtflowError, TimeoutError):
            return [("virtflow_database_up", (), 0.0)]
        letters = [("virtflow_dead_letters", (kind.value,), float(count)) for kind, count in dead.items()]
        return [
            ("virtflow_database_up", (), 1.0),
            *self._gauges(fleet),
            *letters,
            *_of_outlets(outlets),
            *_webhook_gauges(webhooks),
            *_of_roles(processes),
        ]

    def _gauges(self, fleet: FleetSummary) -> Iterator[tuple[str, tuple[str, ...], float]]:
        for pool in fleet.pools:
            for state in ("schedulable", "cordoned", "missing"):
                yield "virtflow_hosts", (pool.pool, state), getattr(pool, state)
            yield "virtflow_hosts", (pool.pool, "self"), pool.self_hosts
            for kind in ("total", "allocatable", "used"):
                for dimension, amount in getattr(pool, kind).items():
                    yield "virtflow_pool_resource", (pool.pool, dimension, kind), amount
        yield "virtflow_instances", ("placed",), fleet.instances_placed
        yield "virtflow_instances", ("waiting",), fleet.instances - fleet.instances_placed
        for state, count in fleet.tasks.items():
            yield "virtflow_tasks", (state,), count
        yield "virtflow_pending_age_seconds_max", (), fleet.oldest_waiting_s or 0.0

    def _of_this_process(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        for report in self._inventories.report() if self._inventories is not None else ():
            where = (report.source, report.location)
            if report.age_s is not None:
                yield "virtflow_inventory_age_seconds", where, report.age_s
            yield "virtflow_inventory_up", where, float(report.state == "fresh")
            yield "virtflow_inventory_skipped_records", where, report.skipped_total
        if self._scheduler is not None:
            yield "virtflow_scheduler_up", (), float(self._scheduler.state == "ok")
            yield "virtflow_fence", (), float(self._scheduler.fence)
        for part, is_well in self._parts().items():
            yield "virtflow_part_up", (part,), float(is_well)
        for election in self._elections:
            yield "virtflow_leader", (election.office,), float(election.state == "leading")
            yield "virtflow_term", (election.office,), float(election.term)
        if self._queue_state is not None:
            yield "virtflow_queue_up", (), float(self._queue_state() == "ok")
        if self._strategy_file is not None:
            yield "virtflow_strategy_file_up", (), float(self._strategy_file.state == "ok")

    def _counter(self, name: str) -> Counter:
        labels, text = METRICS[name]
        return Counter(name, text, labels, registry=self._registry)

    def _histogram(self, name: str) -> Histogram:
        labels, text = METRICS[name]
        return Histogram(name, text, labels, registry=self._registry, buckets=_BUCKETS_S)


def _of_roles(processes: Sequence[ProcessView]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    here = Counts(role for view in processes if view.state == "here" for role in view.process.roles)
    for role, count in here.items():
        yield "virtflow_processes", (role,), float(count)


def _of_outlets(views: Sequence[OutletView]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    for view in views:
        if view.outlet.enabled:
            labels = (view.outlet.name,)
            yield "virtflow_outlet_up", labels, float(not view.outlet.error)
            yield "virtflow_outlet_lag_events", labels, view.behind
            yield "virtflow_outlet_lag_seconds", labels, view.behind_s


def _webhook_gauges(views: Iterable[WebhookView]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    for view in views:
        name = view.webhook.name
        yield "virtflow_webhook_messages", (name, "waiting"), view.waiting
        yield "virtflow_webhook_messages", (name, "dead"), view.dead
        yield "virtflow_webhook_up", (name,), float(view.webhook.state is WebhookState.ACTIVE)


def _bound_text(bound: float) -> str:
    return str(float(bound))


class _Histogram(Collector):
    """A histogram that takes many equal observations at once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counts = [0] * (len(_BUCKETS_S) + 1)
        self._sum = 0.0

    def observe(self, value: float, times: int) -> None:
        self._counts[bisect.bisect_left(_BUCKETS_S, value)] += times
        self._sum += value * times

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, METRICS[self._name][1])
        bounds = [*(_bound_text(bound) for bound in _BUCKETS_S), "+Inf"]
        family.add_metric([], list(zip(bounds, itertools.accumulate(self._counts), strict=True)), self._sum)
        yield family


_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)


def _set(registry: CollectorRegistry, name: str, labels: tuple[str, ...], value: float) -> None:
    names, text = METRICS[name]
    known = registry._names_to_collectors.get(name)
    gauge = known if isinstance(known, Gauge) else Gauge(name, text, names, registry=registry)
    (gauge.labels(*labels) if names else gauge).set(value)
