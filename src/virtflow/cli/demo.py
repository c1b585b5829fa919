"""demo: a server, a simulated fleet, a few hundred VMs, one success and one refusal explained."""

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output
from virtflow.cli.child import Child, free_port, server_command, terminate_like_interrupt
from virtflow.cli.exits import Exit
from virtflow.cli.order import Order, command
from virtflow.cli.progress import Progress, step, title
from virtflow.cli.screen import screen_of

if TYPE_CHECKING:
    from virtflow.client import Client

USUAL_PORT = 8080
READY_S_MAX = 60.0
#: of a hundred hosts, so many VMs: the fleet gets busy, not full
BULK_PER_HOST, SINGLES_PER_HOST = 5, 2
GIB = 1024

#: what people ask for, in the proportions in which they do
_TINY: Order = {"pool": "general", "resources": {"cpu": 1000, "memory": 2 * GIB, "disk": 10}}
_SMALL: Order = {"pool": "general", "resources": {"cpu": 2000, "memory": 4 * GIB, "disk": 20}}
_MIDDLE: Order = {
    "pool": "general",
    "resources": {"cpu": 2000, "memory": 8 * GIB, "disk": 40},
    "dedicated": "forbidden",
}
_STORE: Order = {"pool": "storage", "resources": {"cpu": 2000, "memory": 8 * GIB, "disk": 500}}
_LEARN: Order = {"pool": "ai", "resources": {"cpu": 4000, "memory": 16 * GIB, "gpu": 1}}
_SERVE: Order = {"pool": "ai", "resources": {"cpu": 2000, "memory": 8 * GIB}, "dedicated": "required"}
MENU = (_TINY, _SMALL, _STORE, _TINY, _MIDDLE, _LEARN, _TINY, _SMALL, _STORE, _SMALL, _TINY, _SERVE)
WELCOME: Order = {"name": "web-1", "resources": {"cpu": 4000, "memory": 8 * GIB}, "pool": "general"}
TOO_MUCH: Order = {
    "name": "train-1",
    "resources": {"cpu": 12000, "memory": 48 * GIB, "gpu": 2},
    "pool": "ai",
    "dedicated": "required",
    "labels": {"gpu": "l40s"},
}


def demo(
    hosts: Annotated[int, typer.Option(min=10, max=10_000, metavar="N", help="So many simulated hosts.")] = 60,
    port: Annotated[
        int, typer.Option(min=1, max=65_535, metavar="PORT", help="Another one if it is taken.")
    ] = USUAL_PORT,
    leave: Annotated[bool, typer.Option("--exit", help="End after the show instead of waiting for Ctrl-C.")] = False,
) -> int:
    """Show it at work: a simulated fleet, some hundred VMs, and why they are where they are.

    Everything lives in a temporary folder and is gone afterwards.
    """
    with terminate_like_interrupt(), tempfile.TemporaryDirectory(prefix="virtflow-demo-") as name:
        folder, chosen = Path(name), free_port(port)
        if chosen != port:
            output.show([f"Port {port} is taken; this demo takes {chosen}."])
        words = ("--simulate", str(hosts), "--host", "127.0.0.1", "--port", str(chosen))
        with Child(
            server_command(*words, "--database-url", f"sqlite://{folder / 'virtflow.db'}"), folder=folder
        ) as child:
            return _show(child, f"http://127.0.0.1:{chosen}", hosts, leave=leave)


def _show(child: Child, server: str, hosts: int, *, leave: bool) -> int:
    from virtflow.client import Client, Patience

    with Client(server, patience=Patience(connect_tries_max=1, tries_max=3)) as client:
        _start(child, client, hosts)
        _place(client, hosts)
        _draw(client)
        _explain(client)
    return Exit.OK if leave else _stay(child, server)


def _start(child: Child, client: "Client", hosts: int) -> None:
    from virtflow.client import ApiError, NotReachable

    def is_ready() -> bool:
        try:
            return client.is_ready() and sum(pool.hosts for pool in client.fleet().pools) >= hosts
        except (NotReachable, ApiError):
            return False

    with step(f"Starting a server at {client.server}"):
        child.wait_until(is_ready, what="the start", wait_s=READY_S_MAX)
    pools = ", ".join(f"{pool.pool} {pool.hosts}" for pool in client.fleet().pools)
    output.show([f"{hosts} simulated hosts in pools: {pools}"])


def _place(client: "Client", hosts: int) -> None:
    """Many in one request, then some one by one, as they come in real life."""
    bulk = [{**MENU[number % len(MENU)], "name": f"vm-{number + 1:03d}"} for number in range(hosts * BULK_PER_HOST)]
    with step(f"Placing {len(bulk):,} VMs in one request") as done:
        done.count = sum(vm.is_placed for vm in client.vms.create_many(bulk))
    singles = hosts * SINGLES_PER_HOST
    progress = Progress(screen_of(), f"Placing {singles:,} more one by one", singles)
    for number in range(singles):
        client.vms.create({**MENU[number * 5 % len(MENU)], "name": f"app-{number + 1:03d}"})
        progress.advance()
    progress.end()


def _draw(client: "Client") -> None:
    from virtflow.cli.fleet import draw_fleet

    output.show(["", title("How full the hosts are now (virtflow fleet)")])
    output.show(draw_fleet(client.fleet(), list(client.hosts.list()), screen_of()))


def _explain(client: "Client") -> None:
    from virtflow.cli.explain import draw_preview

    for question, order in (
        ("Where the next one would go, and why", WELCOME),
        ("Why this one finds no place", TOO_MUCH),
    ):
        preview = client.placements.explain(order)
        output.show(["", title(question), f"$ {command('explain', order)}"])
        output.show(draw_preview(preview, order, screen_of()))


def _say_goodbye(server: str) -> None:
    usual = f"http://127.0.0.1:{USUAL_PORT}"
    elsewhere = [] if server == usual else [f"  export VIRTFLOW_SERVER={server}"]
    output.show(
        [
            "",
            title("It stays up until Ctrl-C"),
            f"  API documentation  {server}/docs",
            f"  events as a stream {server}/v1/events/stream",
            f"  metrics            {server}/metrics",
            "",
            "Try in another terminal:",
            *elsewhere,
            "  virtflow fleet --watch",
            f"  {command('place', {**WELCOME, 'name': 'web-1'})} --count 20",
            "  virtflow events --follow",
        ]
    )
    sys.stdout.flush()


def _stay(child: Child, server: str) -> int:
    try:
        _say_goodbye(server)
        while True:
            time.sleep(0.5)
            child.check()
    except KeyboardInterrupt:
        output.show(["", "Stopping the server."])
        return Exit.OK
