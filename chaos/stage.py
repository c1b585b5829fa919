"""Sets up a world: a database and a broker of its own, API processes, schedulers, relays, and wires to be cut."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import httpx

from chaos.load import Manner, load_on
from chaos.scene import Scene
from chaos.watch import watching
from chaos.world import PATIENCE_S, World
from virtflow.model.secret import Secret
from virtflow.testing.cluster import cluster
from virtflow.testing.postgres import USER, PostgresServer, postgres_server
from virtflow.testing.proxy import Proxy, proxy
from virtflow.testing.rabbitmq import RabbitmqServer, rabbitmq_server
from virtflow.testing.receiver import Receiver, receiver
from virtflow.testing.witness import register_hosts
from virtflow.testing.wrong_clock import WrongClock

APIS, SCHEDULERS = 2, 3
_DATABASE = "chaos"
#: who asks for twice the room that there is
_GREEDY_CLIENTS = 8
_T = TypeVar("_T")


@contextlib.asynccontextmanager
async def world(folder: Path, scene: Scene, *, lease_s: float, clients: int, seed: int) -> AsyncIterator[World]:
    """At work inside the block: hosts are registered and clients order."""
    await asyncio.to_thread(folder.mkdir, parents=True)
    async with contextlib.AsyncExitStack() as stack:
        postgres = await _entered(stack, postgres_server())
        broker = await _entered(stack, rabbitmq_server()) if scene.brokered else None
        broker_wire = await stack.enter_async_context(proxy(broker.port)) if broker and scene.broker_wired else None
        url = await postgres.create_database(_DATABASE)
        standby = await _entered(stack, postgres.replica()) if scene.standby else None
        if standby is not None:
            await asyncio.to_thread(postgres.require_replica)
            url = both(postgres, standby, _DATABASE)
        settings = {"lease_s": f"{lease_s:g}", "log_level": "info", **_settings(scene, broker, broker_wire)}
        them = await _entered(stack, cluster(folder, database_url=url, **settings))
        wires: dict[str, Proxy] = {}
        for role, count in (("api", APIS), ("scheduler", SCHEDULERS), ("relay", scene.relays)):
            for number in range(1, count + 1):
                name, own = f"{role}-{number}", {}
                if scene.wired:
                    wires[name] = await stack.enter_async_context(proxy(postgres.port))
                    own = {"database_url": postgres.url(_DATABASE, port=wires[name].port)}
                process = them.add(name, role=role, **own)
                process.clock = WrongClock(folder / f"{name}.clock") if scene.dated else None
        await asyncio.to_thread(them.start)
        api = them["api-1"].url
        await asyncio.to_thread(register_hosts, api, hosts=scene.hosts, cores=scene.cores)
        hook = await stack.enter_async_context(receiver()) if scene.relays else None
        if hook is not None:
            await asyncio.to_thread(_subscribe, api, hook)
        watch = await stack.enter_async_context(watching(url))
        urls = [process.url for process in them if process.name.startswith("api")]
        crowd = max(clients, _GREEDY_CLIENTS) if scene.full else clients
        load = await stack.enter_async_context(
            load_on(urls, folder, clients=crowd, seed=seed, manner=_manner(scene, crowd))
        )
        made = World(
            scene=scene, folder=folder, url=url, lease_s=lease_s, postgres=postgres, standby=standby, broker=broker,
            cluster=them, wires=wires, broker_wire=broker_wire, hook=hook, watch=watch, load=load,
        )  # fmt: skip
        await watch.next_placement(after_s=0, within_s=PATIENCE_S)
        yield made


def both(one: PostgresServer, other: PostgresServer, database: str) -> str:
    """A URL that leads to whichever of them is the primary."""
    return f"postgresql://{USER}@127.0.0.1:{one.port},127.0.0.1:{other.port}/{database}?target_session_attrs=primary"


def _settings(scene: Scene, broker: RabbitmqServer | None, wire: Proxy | None) -> dict[str, str]:
    found = {}
    if broker is not None:
        found["broker_url"] = broker.url(port=wire.port if wire else None)
    if scene.full:  # who is impatient is told so while we watch
        found["retry_wait_s"] = "0.3"
    if scene.relays:
        found["webhook_allow"] = "127.0.0.0/8"
    return found


def _manner(scene: Scene, clients: int) -> Manner:
    """Twice the room that there is, where it is to be full."""
    if not scene.full:
        return Manner()
    return Manner(vms_max=2 * scene.places // clients, impatient=0.2, in_a_hurry=0.1)


def _subscribe(api: str, hook: Receiver) -> None:
    body = {"name": "chaos", "url": hook.url, "events": ["task.", "vm."]}
    made = httpx.post(f"{api}/v1/webhooks", json=body, timeout=30).raise_for_status()
    hook.secrets.append(Secret(made.json()["secret"]))


async def _entered(stack: contextlib.AsyncExitStack, block: contextlib.AbstractContextManager[_T]) -> _T:
    """Starting and ending servers takes a while: beside the loop."""
    entered = await asyncio.to_thread(block.__enter__)
    stack.push_async_callback(asyncio.to_thread, block.__exit__, None, None, None)
    return entered
