"""Everything of one process, built and connected; and what it does, by its roles."""

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from virtflow.config import Config
from virtflow.control.answers import Answers
from virtflow.control.buses import BusCourier
from virtflow.control.clock import SharedClock
from virtflow.control.commit import Committer, Outcome, Round
from virtflow.control.dead import Dead
from virtflow.control.deliver import Deliverer
from virtflow.control.event_feed import EventFeed
from virtflow.control.follow import Follower
from virtflow.control.health import Health, States
from virtflow.control.hosts import Hosts
from virtflow.control.house import House
from virtflow.control.housekeeping import Housekeeping
from virtflow.control.ids import Ids
from virtflow.control.inventories import Inventories
from virtflow.control.journal import Journal, Steps
from virtflow.control.lead import Office
from virtflow.control.metrics import Metrics
from virtflow.control.mirror import Mirror
from virtflow.control.outlets import Outlets
from virtflow.control.placements import Placements
from virtflow.control.pools import Pools
from virtflow.control.presence import Presence
from virtflow.control.processes import Processes
from virtflow.control.relay import Courier, Relay
from virtflow.control.schedule import Scheduler
from virtflow.control.sealing import require_keys, reseal
from virtflow.control.strategy_file import StrategyFile
from virtflow.control.summary import Summary
from virtflow.control.tasks import Tasks
from virtflow.control.tracing import RoundTracer, Settled, TracedMessages, TracedSink, Tracer
from virtflow.control.vms import Vms
from virtflow.control.waiting import WaitingRoom
from virtflow.control.webhooks import Webhooks
from virtflow.election import Election, Term
from virtflow.engine.fleet import Fleet
from virtflow.events import Sink
from virtflow.inventory import Inventory
from virtflow.main.loops import Loops, end
from virtflow.main.parts import (
    make_clock,
    make_election,
    make_inventories,
    make_mailer,
    make_presence,
    make_queue,
    make_self_hosts,
    make_sinks,
    make_store,
    make_strategy_file,
    make_tracer,
    this_process,
)
from virtflow.model.clock import Clock
from virtflow.queue import Queue
from virtflow.store.contract import Store

#: so long a start waits to see whether it leads; then it follows
LEAD_AT_START_S_MAX = 1.0
#: the offices that one process holds at a time, each of the role of its name
SCHEDULER, RELAY = "scheduler", "relay"


class _Part(Protocol):
    """ "ok", or what is wrong."""

    @property
    def state(self) -> str: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Connected and not yet running."""

    config: Config
    store: Store
    house: House
    mirror: Mirror
    scheduler: Scheduler
    follower: Follower
    inventories: Inventories
    housekeeping: Housekeeping
    feed: EventFeed
    queue: Queue
    #: the election of the scheduler's office
    election: Election
    relay: Relay
    relay_election: Election
    strategy_file: StrategyFile | None
    #: where several processes share the database
    presence: Presence | None
    #: and go by its clock
    shared_clock: SharedClock | None
    rounds: RoundTracer | None
    loops: Loops

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[House]:
        """Opens the store and does what its roles are; on the way out writes what was handed in, and closes."""
        for election in (self.election, self.relay_election):
            if election.office in self.config.role:  # who stands for no office needs no right to vote
                await election.check()
        await self.store.open()
        try:
            if self.shared_clock:
                await self.shared_clock.ask()  # before any time is written
            await require_keys(self.store)
            await self.queue.open()
            await self.follower.load()
            async with contextlib.AsyncExitStack() as stack:
                # left in the opposite order: what was handed in is written while we still hold our offices
                self.loops.start(stack, "publishing", self.queue.publish)
                self.loops.start(stack, "answering", self.scheduler.answer_in_time)
                stack.push_async_callback(self.queue.flush)
                self.loops.start(stack, "scheduling", self.scheduler.run)
                if self.store.origin:
                    self.loops.start(stack, "follower", self.follower.run)
                if self.shared_clock:
                    self.loops.start(stack, "clock", self.shared_clock.run)
                if self.presence:
                    await self.presence.beat()  # before anything is decided
                    self.loops.start(stack, "presence", self.presence.run)
                self.loops.start(stack, "health", self.house.health.run)
                if self.strategy_file:
                    self.loops.start(stack, "strategy_file", self.strategy_file.run)
                if RELAY in self.config.role:
                    self._hold(stack, Office(self.relay_election, self.relay.work))
                if SCHEDULER in self.config.role:
                    self._hold(stack, Office(self.election, self._lead))
                    await self._see_who_leads()
                if self.store.origin:
                    self.scheduler.follow()
                stack.push_async_callback(self.scheduler.stop)
                stack.callback(self.feed.close)
                stack.callback(self.loops.may_end)
                yield self.house
        finally:
            await self.election.close()
            await self.relay_election.close()
            await self.relay.close()
            await self.queue.close()
            await self.store.close()
            if self.house.tracer is not None:
                await self.house.tracer.close()

    def listens_at(self, address: str) -> None:
        """Its API answers there: for whoever asks where its processes are."""
        self.house.processes.listens_at(address)
        if self.presence:
            self.presence.listens_at(address)

    def _hold(self, stack: contextlib.AsyncExitStack, office: Office) -> None:
        self.loops.start(stack, f"office of {office.name}", office.run)
        self.loops.watch(f"work of {office.name}", lambda: office.state)

    async def _see_who_leads(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAD_AT_START_S_MAX if self.store.origin else None):
                await self.scheduler.leading.wait()

    async def _lead(self, term: Term) -> None:
        """The work of the scheduler's office: deciding, and what one process should do for all."""
        async with contextlib.AsyncExitStack() as stack:
            leading = asyncio.create_task(self.scheduler.lead(term))
            stack.push_async_callback(end, leading)
            began = asyncio.create_task(self.scheduler.leading.wait())
            stack.push_async_callback(end, began)
            await asyncio.wait({leading, began}, return_when=asyncio.FIRST_COMPLETED)
            self.loops.start(stack, "queue", self._listen)
            self.loops.start(stack, "inventories", self.inventories.run)
            self.loops.start(stack, "housekeeping", self.housekeeping.run)
            await leading

    async def _listen(self) -> None:
        look_at = self.scheduler.look_at
        await self.queue.listen(self.rounds.consuming(look_at) if self.rounds else look_at, self.house.dead.set_aside)


def build(
    config: Config,
    *,
    store: Store | None = None,
    inventories: Sequence[Inventory] | None = None,
    clock: Clock | None = None,
    election: Election | None = None,
    queue: Queue | None = None,
    sinks: Sequence[Sink] | None = None,
    tracer: Tracer | None = None,
    entropy: Callable[[int], bytes] = os.urandom,
) -> Service:
    """One process's worth of virtflow. Tests hand in their own store, inventories, clock, election, queue and sinks."""
    store = store or make_store(config)
    clock = clock or make_clock(store)
    metrics, answers, feed, waiting = Metrics(), Answers(store), EventFeed(store), WaitingRoom()
    tracer = tracer or make_tracer(config, store.origin)
    rounds = RoundTracer(tracer, waiting=waiting, clock=clock) if tracer is not None else None
    queue = queue or make_queue(config, TracedMessages(metrics, rounds) if rounds is not None else metrics)
    loops = Loops(restarted=metrics.observe_restart)
    election = election or make_election(SCHEDULER, config, store, clock)
    relay_election = make_election(RELAY, config, store, clock)
    mirror = Mirror(
        Fleet(config.strategy, weights={"hybrid": config.strategy_weights} if config.strategy_weights else None),
        make_self_hosts(config),
    )

    def tell() -> None:
        """Events were committed, here or elsewhere."""
        feed.tell()
        relay.knock()

    def knock() -> None:
        scheduler.knock()
        tell()

    def chance() -> float:
        """From 0 to below 1."""
        return int.from_bytes(entropy(4), "big") / 2**32

    async def hear_of(ids: Sequence[bytes]) -> None:
        await scheduler.hear_of(ids)

    outlets = Outlets(store=store, clock=clock, observer=metrics, tell=tell)
    if sinks is None:
        sinks = make_sinks(config) if RELAY in config.role else []
    if tracer is not None:
        sinks = [TracedSink(sink, tracer, clock=clock) for sink in sinks]
    ids = Ids(clock, entropy)
    mailer = make_mailer(config, clock, tracer)
    deliverer = Deliverer(
        store=store,
        mailer=mailer,
        clock=clock,
        ids=Ids(clock, entropy),  # of its own: they run after those of other relays, whatever their clocks said
        observer=metrics,
        chance=chance,
        disable_after_s=config.webhook_disable_after_s,
    )
    # one for each way out of the house
    couriers: list[Courier] = [
        *(
            BusCourier(sink, store=store, outlets=outlets, clock=clock, observer=metrics, chance=chance)
            for sink in sinks
        ),
        deliverer,
    ]

    relay = Relay(couriers, start=loops.start, settle=lambda: _settle(store, outlets, sinks))
    follower = Follower(
        store=store,
        mirror=mirror,
        waiting=waiting,
        tell=tell,
        opened=knock,
        accepted=hear_of,
        leads=lambda: scheduler.is_leading,
    )
    scheduler = Scheduler(
        store=store,
        mirror=mirror,
        waiting=waiting,
        follower=follower,
        committer=Committer(store=store, clock=clock),
        clock=clock,
        observer=metrics,
        settled=_each(Journal().settled, *([rounds.settled] if rounds is not None else [])),
        tell=tell,
        call=queue.call,
        bury=queue.bury,
        tick_s=config.tick_s,
        retries_max=config.retries_max,
        retry_wait_s=config.retry_wait_s,
        accept_queue_max=config.accept_queue_max,
    )
    hosts = Hosts(store=store, mirror=mirror, clock=clock, knock=knock, doubt=scheduler.doubt)
    pools = Pools(store=store, mirror=mirror, hosts=hosts, clock=clock, knock=knock, doubt=scheduler.doubt)
    watch = Inventories(
        make_inventories(config) if inventories is None else inventories,
        store=store,
        hosts=hosts,
        pools=pools,
        clock=clock,
        poll_s=config.inventory_poll_s,
        usage=config.inventory_usage,
    )
    tasks = Tasks(store=store, mirror=mirror, waiting=waiting, clock=clock, tell=tell)
    summary = Summary(store=store, inventories=watch, clock=clock, mirror=mirror)
    strategy_file = make_strategy_file(config, mirror)
    vms = Vms(
        store=store,
        mirror=mirror,
        scheduler=scheduler,
        waiting=waiting,
        clock=clock,
        ids=ids,
        knock=knock,
        doubt=scheduler.doubt,
        catch_up=follower.catch_up,
        guard=mailer.guard,
    )
    dead = Dead(store=store, vms=vms, clock=clock, ids=ids, tell=tell, call=queue.call)

    elections = tuple(one for one in (election, relay_election) if one.office in config.role)
    health = Health(
        store=store,
        scheduler=scheduler,
        inventories=watch,
        follower=follower,
        mirror=mirror,
        clock=clock,
        roles=config.role,
        elections=elections,
        needed=loops.report,
        useful=_useful(
            relay=relay if RELAY in config.role else None,
            broker=queue if config.broker_url else None,
            strategy_file=strategy_file,
            traces=tracer,
        ),
    )
    processes = Processes(
        store=store,
        clock=clock,
        me=this_process(config, store.origin, now_ms=clock.now_ms()),
        elections=elections,
        unwell=lambda: health.unwell,
    )
    webhooks = Webhooks(
        store=store,
        guard=mailer.guard,
        mailer=mailer,
        clock=clock,
        ids=ids,
        entropy=entropy,
        observer=metrics,
        tell=tell,
        look_again=deliverer.look_again,
    )
    metrics.read_from(
        summary=summary,
        processes=processes,
        elections=elections,
        scheduler=scheduler,
        inventories=watch,
        outlets=outlets,
        strategy_file=strategy_file,
        webhooks=webhooks,
        dead=dead,
        queue_state=lambda: queue.state,
        parts=lambda: health.well,
    )
    house = House(
        hosts=hosts,
        pools=pools,
        vms=vms,
        tasks=tasks,
        dead=dead,
        placements=Placements(mirror),
        events=feed,
        outlets=outlets,
        webhooks=webhooks,
        answers=answers,
        inventories=watch,
        summary=summary,
        processes=processes,
        health=health,
        metrics=metrics,
        tracer=tracer,
    )  # fmt: skip
    return Service(
        config=config,
        store=store,
        house=house,
        mirror=mirror,
        scheduler=scheduler,
        follower=follower,
        inventories=watch,
        housekeeping=Housekeeping(
            store=store,
            outlets=outlets,
            clock=clock,
            idempotency_keep_s=config.idempotency_keep_s,
            dead_keep_s=config.dead_keep_s,
            events_keep=config.events_keep,
            events_keep_max=config.events_keep_max,
        ),
        feed=feed,
        queue=queue,
        relay=relay,
        election=election,
        relay_election=relay_election,
        strategy_file=strategy_file,
        presence=make_presence(config, store, mirror, clock, changed=knock, unwell=lambda: health.unwell),
        shared_clock=clock if isinstance(clock, SharedClock) else None,
        rounds=rounds,
        loops=loops,
    )


async def _settle(store: Store, outlets: Outlets, sinks: Sequence[Sink]) -> None:
    """What who holds the relay's office puts in order first."""
    await reseal(store)
    await outlets.settle([sink.name for sink in sinks])


def _useful(*, relay: Relay | None, **parts: _Part | None) -> States:
    """What work goes on without, and what a restart would not mend. None: this process has no such part."""

    def states() -> dict[str, str]:
        return {
            **(relay.states if relay is not None else {}),
            **{name: part.state for name, part in parts.items() if part is not None},
        }

    return states


def _each(*told: Settled) -> Settled:
    if len(told) == 1:
        return told[0]

    def settled(decided: Round, outcome: Outcome, steps: Steps) -> None:
        for one in told:
            one(decided, outcome, steps)

    return settled
