"""The only place that builds and connects things, and the doors that the command line knocks at."""

import asyncio
import contextlib
import dataclasses
import gc
import importlib
import json
import logging
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from importlib.metadata import entry_points
from typing import Any, TypeVar

import msgspec
import structlog
import yaml

from virtflow import __version__
from virtflow.config import Config, is_loopback, load_config, make_data_folder, show_config
from virtflow.control.answers import Answers
from virtflow.control.clock import SystemClock
from virtflow.control.commit import Committer
from virtflow.control.event_feed import EventFeed
from virtflow.control.follow import Follower
from virtflow.control.fsck import Report
from virtflow.control.fsck import fsck as check_everything
from virtflow.control.health import Health
from virtflow.control.hosts import Hosts
from virtflow.control.house import House
from virtflow.control.housekeeping import Housekeeping
from virtflow.control.ids import Ids
from virtflow.control.inventories import Inventories
from virtflow.control.lead import Office
from virtflow.control.metrics import Metrics
from virtflow.control.mirror import Mirror
from virtflow.control.placements import Placements
from virtflow.control.pools import Pools
from virtflow.control.schedule import Scheduler
from virtflow.control.summary import Summary
from virtflow.control.tasks import Tasks
from virtflow.control.vms import Vms
from virtflow.control.waiting import WaitingRoom
from virtflow.election import Election, Term
from virtflow.election.alone import Alone
from virtflow.engine import strategies
from virtflow.engine.decide import warm_up
from virtflow.engine.fleet import Fleet
from virtflow.inventory import Inventory
from virtflow.inventory.open import open_inventories
from virtflow.model.clock import Clock
from virtflow.model.errors import VirtflowError
from virtflow.model.secret import without_secrets
from virtflow.store.contract import Store
from virtflow.store.open import open_store

log = structlog.get_logger("virtflow")

T = TypeVar("T")
App = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]
Loop = Callable[[], Coroutine[Any, Any, None]]

#: on loopback only these names are answered to, so that no web page reaches us through a name of its own
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})

EXIT_CONFIGURATION = 78
#: a loop that fails starts again after so long, and after twice that when it fails again
LOOP_RESTART_S, LOOP_RESTART_S_MAX = 0.5, 30.0
#: a loop that has run for so long is well again
LOOP_WELL_S = 60.0
#: so long a start waits to see whether it leads; then it follows
LEAD_AT_START_S_MAX = 1.0
SCHEDULER, RELAY = "scheduler", "relay"
#: the GIL changes hands this often, so that the commit's thread is not kept waiting by the loop
SWITCH_INTERVAL_S = 0.0005
#: a batch makes tens of thousands of records that live for one commit; with the defaults a fifth of the time went here
GC_THRESHOLDS = (100_000, 20, 50)


# ── building ──────────────────────────────────────────────────────────────────────────────────────


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Everything of one process, connected and not yet running."""

    config: Config
    store: Store
    house: House
    scheduler: Scheduler
    follower: Follower
    inventories: Inventories
    housekeeping: Housekeeping
    feed: EventFeed
    election: Election
    loops: dict[str, str]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[House]:
        """Opens the store and does what its roles are; on the way out writes what was handed in, and closes."""
        await self.store.open()
        try:
            await self.follower.load()
            async with contextlib.AsyncExitStack() as stack:
                # left in the opposite order: what was handed in is written while we still hold our offices
                self._start(stack, "scheduling", self.scheduler.run)
                if self.store.origin:
                    self._start(stack, "follower", self.follower.run)
                if SCHEDULER in self.config.role:
                    self._start(stack, SCHEDULER, Office(self.election, self._lead).run)
                    await self._see_who_leads()
                stack.push_async_callback(self.scheduler.stop)
                stack.callback(self.feed.close)
                yield self.house
        finally:
            await self.election.close()
            await self.store.close()

    def _start(self, stack: contextlib.AsyncExitStack, name: str, loop: Loop) -> None:
        stack.push_async_callback(_end, asyncio.create_task(self._keep_running(name, loop)))

    async def _see_who_leads(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAD_AT_START_S_MAX if self.store.origin else None):
                await self.scheduler.leading.wait()

    async def _lead(self, term: Term) -> None:
        """The work of the scheduler's office: deciding, and what one process should do for all."""
        async with contextlib.AsyncExitStack() as stack:
            leading = asyncio.create_task(self.scheduler.lead(term))
            stack.push_async_callback(_end, leading)
            began = asyncio.create_task(self.scheduler.leading.wait())
            stack.push_async_callback(_end, began)
            await asyncio.wait({leading, began}, return_when=asyncio.FIRST_COMPLETED)
            self._start(stack, "inventories", self.inventories.run)
            self._start(stack, "housekeeping", self.housekeeping.run)
            await leading

    async def _keep_running(self, name: str, loop: Loop) -> None:
        """A loop that fails starts again, after growing waits; while it is down, health says so."""
        failures = 0
        while True:
            began_s = time.monotonic()
            try:
                self.loops[name] = "ok"
                await loop()
                return
            except Exception as error:
                failures = 1 if time.monotonic() - began_s > LOOP_WELL_S else failures + 1
                self.loops[name] = f"restarting after {type(error).__name__}: {error}"
                log.exception("loop.failed", loop=name)
                await asyncio.sleep(min(LOOP_RESTART_S_MAX, LOOP_RESTART_S * 2 ** min(failures, 10)))


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def build(
    config: Config,
    *,
    store: Store | None = None,
    inventories: Sequence[Inventory] | None = None,
    clock: Clock | None = None,
    election: Election | None = None,
    entropy: Callable[[int], bytes] = os.urandom,
) -> Service:
    """One process's worth of virtflow. Tests hand in their own store, inventories, clock and election."""
    clock = clock or SystemClock()
    store = store or _store(config)
    metrics, answers, feed, waiting = Metrics(), Answers(store), EventFeed(store), WaitingRoom()
    mirror = Mirror(
        Fleet(config.strategy, weights={"hybrid": config.strategy_weights} if config.strategy_weights else None)
    )

    def knock() -> None:
        scheduler.knock()
        feed.tell()

    async def hear_of(ids: Sequence[bytes]) -> None:
        await scheduler.hear_of(ids)

    follower = Follower(store=store, mirror=mirror, waiting=waiting, tell=feed.tell, opened=knock, accepted=hear_of)
    scheduler = Scheduler(
        store=store,
        mirror=mirror,
        waiting=waiting,
        follower=follower,
        committer=Committer(store=store, clock=clock),
        clock=clock,
        observer=metrics,
        tell=feed.tell,
        call=_call_nobody,
        tick_s=config.tick_s,
        retries_max=config.retries_max,
        retry_wait_s=config.retry_wait_s,
        accept_queue_max=config.accept_queue_max,
    )
    hosts = Hosts(store=store, mirror=mirror, clock=clock, knock=knock)
    pools = Pools(store=store, mirror=mirror, hosts=hosts, clock=clock, knock=knock, default_strategy=config.strategy)
    watch = Inventories(
        _inventories(config) if inventories is None else inventories,
        store=store,
        hosts=hosts,
        pools=pools,
        clock=clock,
        poll_s=config.inventory_poll_s,
        usage=config.inventory_usage,
    )
    tasks = Tasks(store=store, mirror=mirror, waiting=waiting, clock=clock, tell=feed.tell)
    summary = Summary(store=store, inventories=watch, clock=clock, default_strategy=config.strategy)
    metrics.read_from(summary=summary, scheduler=scheduler, inventories=watch)
    loops: dict[str, str] = {}
    house = House(
        hosts=hosts,
        pools=pools,
        vms=Vms(
            store=store, mirror=mirror, scheduler=scheduler, waiting=waiting, clock=clock,
            ids=Ids(clock, entropy), knock=knock, catch_up=follower.catch_up,
        ),
        tasks=tasks,
        placements=Placements(mirror),
        events=feed,
        answers=answers,
        inventories=watch,
        summary=summary,
        health=Health(store=store, scheduler=scheduler, inventories=watch, loops=loops),
        metrics=metrics,
    )  # fmt: skip
    return Service(
        config=config,
        store=store,
        house=house,
        scheduler=scheduler,
        follower=follower,
        inventories=watch,
        election=election or Alone(SCHEDULER),
        housekeeping=Housekeeping(
            store=store, clock=clock, idempotency_keep_s=config.idempotency_keep_s, events_keep=config.events_keep
        ),
        feed=feed,
        loops=loops,
    )


def _call_nobody(_ids: Sequence[bytes]) -> None:
    """The log tells the leader of new tasks."""


def _store(config: Config) -> Store:
    url = config.database_url.reveal()
    return open_store(url, origin=_process_name() if config.is_shared else "")


def _process_name() -> str:
    """Unlike that of any other process, and of an earlier one with our number."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{os.urandom(3).hex()}"


def _inventories(config: Config) -> Sequence[Inventory]:
    found = open_inventories(
        url=config.inventory_url,
        token=config.inventory_token,
        file=config.inventory_file,
        plugin=config.inventory_plugin,
        timeout_s=config.inventory_timeout_s,
    )
    if not config.simulate:
        return found
    # testing stands above main in the house, so it is reached like a guest's plug-in
    return [importlib.import_module("virtflow.testing.fleets").SimulatedInventory(config.simulate)]


def _register_guests() -> None:
    """Strategies of other packages, found by their entry points."""
    for point in entry_points(group="virtflow.strategies"):
        strategies.register(point.load())


def _config(argv: Sequence[str]) -> Config:
    _register_guests()
    return load_config(environ=os.environ, known_strategies=strategies.names(), flags=_flags(argv))


def _flags(argv: Sequence[str]) -> dict[str, str]:
    """`--database-url X` and `--database-url=X` as settings; config knows the names and judges the values."""
    flags: dict[str, str] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        flags[name.replace("-", "_")] = value if equals else words.pop(0) if words else ""
    return flags


# ── the doors ─────────────────────────────────────────────────────────────────────────────────────


def _guarded(run: Callable[[], int]) -> int:
    """Nobody but a developer ever sees a traceback."""
    try:
        return run()
    except VirtflowError as error:
        remedy = f"\n{error.remedy}" if error.remedy else ""
        print(f"virtflow: {error.detail}{remedy}", file=sys.stderr)
        return EXIT_CONFIGURATION if error.error_code == "invalid_setting" else 1
    except KeyboardInterrupt:
        return 130


def _as_it_is(thing: T) -> T:
    return thing


def serve(
    argv: Sequence[str],
    *,
    wrap_store: Callable[[Store], Store] = _as_it_is,
    wrap_app: Callable[[App], App] = _as_it_is,
) -> int:
    """`virtflow serve`. Tests wrap the store and the app to make them fail."""
    return _guarded(lambda: _serve(_config(argv), wrap_store, wrap_app))


def _serve(config: Config, wrap_store: Callable[[Store], Store], wrap_app: Callable[[App], App]) -> int:
    _set_up_logging(config)
    make_data_folder(config)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    import uvloop

    return uvloop.run(_serve_until_told(config, wrap_store, wrap_app))


async def _serve_until_told(
    config: Config, wrap_store: Callable[[Store], Store], wrap_app: Callable[[App], App]
) -> int:
    from virtflow.api.app import create_app  # other doors start without it
    from virtflow.api.server import run_server
    from virtflow.api.settings import ApiSettings

    service = build(config, store=wrap_store(_store(config)))
    async with service.running() as house:
        # what is here now stays: the collector need not look at it, nor look as often as it would in a small script
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        settings = ApiSettings(
            version=__version__,
            token=config.token if config.token.reveal() else None,
            allowed_hosts=_LOOPBACK_NAMES if is_loopback(config.host) else frozenset(),
            body_bytes_max=config.body_bytes_max,
            database=without_secrets(config.database_url.reveal()),
            strategy=config.strategy,
        )
        app = wrap_app(create_app(house, settings=settings))
        await run_server(app, host=config.host, port=config.port, ready=_say_hello)
    return 0


async def _say_hello(address: str) -> None:
    log.info("serving", address=address, docs=f"{address}/docs")
    # where the extra `fast` is installed: compiled beside the work, not in the first large batch
    asyncio.get_running_loop().run_in_executor(None, warm_up)


def fsck(argv: Sequence[str]) -> int:
    """`virtflow fsck`: proves the promises from the database alone. Exit code 1 when something does not hold."""
    words = list(argv)
    as_json = _take_option(words, "-o", "--output") == "json"
    return _guarded(lambda: asyncio.run(_fsck(_config(words), as_json=as_json)))


async def _fsck(config: Config, *, as_json: bool) -> int:
    store = open_store(config.database_url.reveal(), reading=True)
    await store.open()
    try:
        report = await check_everything(store, progress=_no_progress if as_json else _show_progress)
    finally:
        await store.close()
    if as_json:
        print(msgspec.json.encode(report).decode())
    else:
        _print_report(report)
    return 1 if report.violations_total else 0


def _print_report(report: Report) -> None:
    print(
        f"checked {report.hosts} hosts, {report.instances} instances, {report.tasks} tasks, {report.events} events"
        + ("" if report.whole_history else " (the oldest events are no longer kept)")
    )
    for violation in report.violations:
        print(f"  {violation.code}: {violation.text}")
    if report.violations_total > len(report.violations):
        print(f"  … and {report.violations_total - len(report.violations)} more")
    print("everything holds" if not report.violations_total else f"{report.violations_total} violations")


def _show_progress(what: str, count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{what}: {count}   ", end="", file=sys.stderr, flush=True)


def _no_progress(what: str, count: int) -> None:
    pass


def config_show(argv: Sequence[str]) -> int:
    """`virtflow config show`: every setting, its value and where it came from."""
    words = list(argv)
    form = _take_option(words, "-o", "--output") or "table"
    return _guarded(lambda: _config_show(_config(words), form))


def _config_show(config: Config, form: str) -> int:
    rows = show_config(config)
    if form == "json":
        print(json.dumps([{"setting": name, "value": value, "source": source} for name, value, source in rows]))
    elif form == "yaml":
        print(yaml.safe_dump([{"setting": n, "value": v, "source": s} for n, v, s in rows], sort_keys=False), end="")
    else:
        width, value_width = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
        for name, value, source in [("SETTING", "VALUE", "FROM"), *rows]:
            print(f"{name:{width}}  {value:{value_width}}  {source}".rstrip())
    return 0


def node_api(argv: Sequence[str]) -> int:
    """`virtflow node-api`: a small node API to try things against."""
    return int(importlib.import_module("virtflow.testing.node_api").main(list(argv)) or 0)


def _take_option(words: list[str], *names: str) -> str | None:
    """Takes `-o json`, `--output json` or `--output=json` out of the words."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            del words[place]
            return value if equals else words.pop(place) if place < len(words) else ""
    return None


def _set_up_logging(config: Config) -> None:
    level = logging.getLevelNamesMapping()[config.log_level.upper()]
    logging.basicConfig(level=max(level, logging.WARNING), format="%(levelname)s %(name)s %(message)s")
    as_json = config.log_format == "json"
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.dict_tracebacks if as_json else structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer()
            if as_json
            else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m virtflow.main serve …`: what `virtflow serve` and the demo start."""
    words = list(sys.argv[1:] if argv is None else argv)
    doors = {"serve": serve, "fsck": fsck, "config-show": config_show, "node-api": node_api}
    if not words or words[0] not in doors:
        print(f"virtflow.main: say one of {', '.join(doors)}", file=sys.stderr)
        return 2
    return doors[words[0]](words[1:])


if __name__ == "__main__":
    sys.exit(main())
