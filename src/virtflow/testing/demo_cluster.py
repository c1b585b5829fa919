"""`make demo-cluster`: the real thing on one machine, with a leader that dies while somebody asks for a VM.

PostgreSQL, RabbitMQ and NATS, two processes that serve the API, three that schedule, one that tells the world, and a
receiver of webhooks. Everything lives in a temporary folder and is gone afterwards.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from virtflow.cli import output
from virtflow.cli.app import main as virtflow
from virtflow.cli.child import free_port, terminate_like_interrupt
from virtflow.cli.demo import BULK_PER_HOST, MENU, SINGLES_PER_HOST, WELCOME
from virtflow.cli.exits import CommandError, Exit, report
from virtflow.cli.order import command
from virtflow.cli.progress import Progress, step, title
from virtflow.cli.screen import screen_of
from virtflow.client import Client
from virtflow.client.records import Vm
from virtflow.events.nats import stream_name
from virtflow.testing.cluster import Cluster, Process, cluster, wait_until
from virtflow.testing.nats import NatsServer, nats_server
from virtflow.testing.postgres import postgres_server
from virtflow.testing.rabbitmq import RabbitmqServer, rabbitmq_server

APIS, SCHEDULERS, RELAY = ("api-1", "api-2"), ("scheduler-1", "scheduler-2", "scheduler-3"), "relay-1"
RECEIVER = "demo"
USUAL_PORT = 8080
LEASE_S = 2
PLACED_S_MAX = 30.0
TOLD_S_MAX = 30.0
WITHOUT_BROKER = 20
#: what is said of a VM that waits only because nobody has decided yet
FITS = "fits_now"
_POLL_S = 0.01
_LOOK_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that was started."""

    folder: Path
    broker: RabbitmqServer
    nats: NatsServer
    them: Cluster
    #: what the receiver of webhooks wrote down
    heard: Path
    #: who answers requests, to be asked in turn
    clients: list[Client] = field(default_factory=list)

    @property
    def leader(self) -> Process:
        return self.them.wait_for_leader()


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    try:
        with terminate_like_interrupt(), contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="virtflow-demo-")))
            world = _start(stack, folder, hosts=options.hosts, port=options.port)
            _show(world, options.hosts)
            return Exit.OK if options.exit else _stay(world)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except (FileNotFoundError, RuntimeError) as error:  # a server is missing, or did not start
        return report(CommandError(str(error), remedy="`make demo` needs nothing beside Python"))
    except CommandError as error:
        return report(error)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo-cluster ARGS=…", description="The real thing on one machine.")
    parser.add_argument("--hosts", type=int, default=60, metavar="N", help="so many simulated hosts (60)")
    parser.add_argument("--port", type=int, default=USUAL_PORT, help="of the first API process (8080)")
    parser.add_argument("--exit", action="store_true", help="end after the show instead of waiting for Ctrl-C")
    options = parser.parse_args(argv)
    if not 10 <= options.hosts <= 10_000:
        parser.error("--hosts is a number from 10 to 10000")
    return options


# What is started.


def _start(stack: contextlib.ExitStack, folder: Path, *, hosts: int, port: int) -> World:
    with step("Starting PostgreSQL"):
        postgres = stack.enter_context(postgres_server(fsync="on", full_page_writes="on"))
        database_url = asyncio.run(postgres.create_database("virtflow"))
    with step("Starting RabbitMQ"):
        broker = stack.enter_context(rabbitmq_server())
    with step("Starting NATS"):
        nats = stack.enter_context(nats_server())
    them = stack.enter_context(
        cluster(
            folder,
            database_url=database_url,
            broker_url=broker.url(),
            events_nats_url=nats.url,
            events_prefix="demo",
            webhook_allow="127.0.0.0/8",
            lease_s=str(LEASE_S),
        )
    )
    for number, name in enumerate(APIS):
        them.add(name, role="api", port=str(free_port(port + number if port else 0)))
    for name in SCHEDULERS:
        them.add(name, role="scheduler", simulate=str(hosts))
    them.add(RELAY, role="relay")
    world = World(folder=folder, broker=broker, nats=nats, them=them, heard=folder / "heard.jsonl")
    for name in APIS:
        world.clients.append(stack.enter_context(Client(them[name].url)))
    with step(f"Starting {len(APIS)} × api, {len(SCHEDULERS)} × scheduler, 1 × relay"):
        them.start()
        them.wait_for_leader()
        wait_until(lambda: sum(pool.hosts for pool in world.clients[0].fleet().pools) >= hosts)
    with step("Starting a receiver of webhooks"):
        _start_receiver(stack, world)
    return world


def _start_receiver(stack: contextlib.ExitStack, world: World) -> None:
    port = free_port(9000)
    made = world.clients[0].webhooks.create({"name": RECEIVER, "url": f"http://127.0.0.1:{port}/events"})
    words = ["-m", "virtflow.testing.receiver", "--port", str(port), "--record", str(world.heard)]
    log = stack.enter_context((world.folder / "receiver.log").open("wb"))
    environment = {**os.environ, "WEBHOOK_SECRET": made.secret or ""}
    receiver = subprocess.Popen(
        [sys.executable, "-P", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
    )
    stack.callback(_end, receiver)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    process.wait()


# What is shown.


def _show(world: World, hosts: int) -> None:
    server = world.clients[0].server
    _run("Who does what", server, "get", "processes")
    output.show([""])
    _place(world, hosts)
    _tell(world)
    _kill_the_leader(world)
    _kill_the_broker(world)
    _run("Who does what now", server, "get", "processes")
    _prove(world)


def _run(what: str, server: str, *words: str) -> int:
    """As if it had been typed."""
    output.show(["", title(what), f"$ virtflow {' '.join(words)}"])
    sys.stdout.flush()
    return virtflow(["--server", server, *words])


def _place(world: World, hosts: int) -> None:
    """Many in one request, then some one by one, through both doors in turn."""
    bulk = [{**MENU[number % len(MENU)], "name": f"vm-{number + 1:03d}"} for number in range(hosts * BULK_PER_HOST)]
    with step(f"Placing {len(bulk):,} VMs in one request") as done:
        client = world.clients[0]
        _placed(client, client.vms.create_many(bulk)[-1])  # they are decided in this order
        without_room = [vm for vm in client.vms.list(placed=False) if not _placed(client, vm).is_placed]
        done.count = len(bulk) - len(without_room)
    singles = hosts * SINGLES_PER_HOST
    progress = Progress(screen_of(), f"Placing {singles:,} more one by one, at both", singles)
    for number in range(singles):
        client = world.clients[number % len(world.clients)]
        _placed(client, client.vms.create({**MENU[number * 5 % len(MENU)], "name": f"app-{number + 1:03d}"}))
        progress.advance()
    progress.end()


def _tell(world: World) -> None:
    """What the world outside was told of it."""
    newest = world.clients[0].events.range().newest
    with step("Waiting until everybody outside was told"):
        wait_until(lambda: _courier_is_at(world, newest), within_s=TOLD_S_MAX, otherwise=lambda: "the relay lags")
    heard = _heard(world)
    right = sum(message["verified"] for message in heard)
    stored = asyncio.run(world.nats.bodies(stream_name(world.them[RELAY].settings["events_prefix"])))
    output.show(
        [
            f"  webhook: {len(heard):,} messages since it was created, {right:,} of them rightly signed",
            f"  NATS:    {len(stored):,} messages since the beginning",
        ]
    )


def _kill_the_leader(world: World) -> None:
    client, leader = world.clients[0], world.leader
    output.show(["", title("The leader dies while somebody asks for a VM"), f"$ kill -9 {leader.pid}  # {leader.name}"])
    clock = Clock()
    leader.kill()
    clock.say(f"{leader.name} is gone")
    vm = client.vms.create({**WELCOME, "name": "after-the-leader"})
    clock.say(f"{vm.name} is accepted and durable; nobody decides just now")
    vm = _placed(client, vm)
    at = clock.now_s
    new = world.them.wait_for_leader(other_than=leader)
    clock.say(f"{vm.name} is on {vm.host}: {new.name} leads", at)
    leader.start()
    leader.wait_until_ready()
    clock.say(f"{leader.name} is started again, and follows")


def _kill_the_broker(world: World) -> None:
    client = world.clients[1]
    output.show(["", title("RabbitMQ dies"), "$ kill -9 <RabbitMQ>"])
    clock = Clock()
    world.broker.kill()
    clock.say("the broker is gone")
    vms = [client.vms.create({**MENU[0], "name": f"no-broker-{number + 1:02d}"}) for number in range(WITHOUT_BROKER)]
    placed = sum(_placed(client, vm).is_placed for vm in vms)
    clock.say(f"{placed} VMs asked for and placed without it: the event log carries the knocks")
    world.broker.start()
    clock.say("the broker is back")
    wait_until(lambda: all(process.health != "degraded" for process in client.processes()))
    clock.say("everybody has found it again")


def _prove(world: World) -> None:
    output.show(["", title("Is everything as it was promised?"), "$ virtflow fsck --history"])
    sys.stdout.flush()
    words = ["fsck", "--history"]
    settings = {"VIRTFLOW_DATABASE_URL": world.them[RELAY].settings["database_url"]}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "virtflow.cli.app", *words], check=False, env={**os.environ, **settings}
    )
    if done.returncode:
        raise CommandError("fsck found something; that is a defect of virtflow")


class Clock:
    """Lines with the seconds since it began."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began

    def say(self, what: str, at_s: float | None = None) -> None:
        output.show([f"  {self.now_s if at_s is None else at_s:6.2f} s  {what}"])
        sys.stdout.flush()


def _placed(client: Client, vm: Vm) -> Vm:
    """As soon as somebody has decided about it."""
    end = time.monotonic() + PLACED_S_MAX
    while vm.is_waiting and (vm.explanation is None or vm.explanation.code == FITS) and time.monotonic() < end:
        time.sleep(_POLL_S)
        vm = client.vms.get(vm.id)
    return vm


def _courier_is_at(world: World, newest: int) -> bool:
    """The bus has all, and the receiver what it wanted."""
    outlets = list(world.clients[0].outlets.list())
    is_level = bool(outlets) and all(outlet.cursor >= newest for outlet in outlets)
    return is_level and not world.clients[0].webhooks.get(RECEIVER).waiting


def _heard(world: World) -> list[dict[str, Any]]:
    return [json.loads(line) for line in world.heard.read_text().splitlines()] if world.heard.exists() else []


# While it stays.


def _stay(world: World) -> int:
    """What dies is started again, as systemd or Kubernetes would."""
    try:
        _say_goodbye(world)
        while True:
            time.sleep(_LOOK_AGAIN_S)
            for process in world.them:
                if not process.is_alive():
                    process.start()
                    output.show([f"{process.name} died and is started again (pid {process.pid})"])
                    sys.stdout.flush()
    except KeyboardInterrupt:
        output.show(["", "Stopping everything."])
        return Exit.OK


def _say_goodbye(world: World) -> None:
    first, second = (client.server for client in world.clients)
    elsewhere = [] if first.endswith(f":{USUAL_PORT}") else [f"  export VIRTFLOW_SERVER={first}"]
    output.show(
        [
            "",
            title("It stays up until Ctrl-C; what you kill is started again"),
            f"  API documentation  {first}/docs and {second}/docs",
            f"  database           {world.them[RELAY].settings['database_url']}",
            f"  logs               {world.folder}/*.log",
            "",
            "Try in another terminal:",
            *elsewhere,
            "  virtflow get processes --watch",
            f"  kill -9 {world.leader.pid}                      # the leader",
            f"  {command('place', {**WELCOME, 'name': 'web-1'})} --count 20 --wait",
            "  virtflow events --follow --cluster",
            "  virtflow webhooks deliveries demo",
        ]
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
