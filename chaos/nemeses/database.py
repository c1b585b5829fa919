"""Harm to the database and to the ways there: G10."""

import asyncio
import random
import time

from chaos.nemeses.nemesis import Nemesis
from chaos.scene import Scene
from chaos.world import World, anywhere

BACKENDS_MAX = 4
_KILL_BACKENDS = """
    SELECT count(pg_terminate_backend(pid)) FROM (
        SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'virtflow%'
        ORDER BY random() LIMIT $1
    ) AS chosen
"""


async def lose_commit(world: World, chance: random.Random) -> float:
    """The reply to a COMMIT never comes, and the connection is gone: nobody was told what has happened."""
    wire = world.wires[chance.choice([*world.apis, world.last_leader()]).name]
    before, struck_s = wire.swallowed, time.monotonic()
    wire.swallow_reply_to = b"COMMIT"

    async def is_swallowed() -> bool:
        return wire.swallowed > before

    try:
        await world.until(is_swallowed, "a COMMIT on its way", poll_s=0.002)
    finally:
        wire.swallow_reply_to = None
    return await world.next_acceptance(after_s=time.monotonic()) + time.monotonic() - struck_s


async def kill_backends(world: World, chance: random.Random) -> float:
    """In the middle of what they are doing."""
    await anywhere(chance, 0.05)
    struck_s = time.monotonic()
    await world.rows(_KILL_BACKENDS, chance.randint(1, BACKENDS_MAX))
    return await world.next_acceptance(after_s=struck_s)


async def kill(world: World, chance: random.Random) -> float:
    await world.some_load(chance.randint(5, 20))
    with world.fault():
        await asyncio.to_thread(world.postgres.crash)
        await asyncio.to_thread(world.postgres.start)
    up_s = time.monotonic()
    return await world.next_acceptance(after_s=up_s)


async def fail_over(world: World, chance: random.Random) -> float:
    """The replica has all that anybody was told; who was the primary comes back as its replica."""
    await world.some_load(chance.randint(5, 20))
    dead, heir = world.postgres, world.standby
    assert heir is not None
    with world.fault():
        struck_s = time.monotonic()
        await asyncio.to_thread(dead.crash)
        await asyncio.to_thread(heir.promote)
        promoted_s = time.monotonic()
        await world.next_acceptance(after_s=promoted_s)
        took_s = time.monotonic() - struck_s
    world.postgres, world.standby = heir, dead
    await asyncio.to_thread(dead.follow, heir)
    await asyncio.to_thread(heir.require_replica)
    return took_s


NEMESES = (
    Nemesis(
        name="lost-commit", does="the reply to a COMMIT is swallowed and the connection cut", goal="G10",
        measures="from the fault to the next accepted order", strike=lose_commit, rounds=100, scene=Scene(wired=True),
    ),
    Nemesis(
        name="backend-kill", does=f"pg_terminate_backend of 1 to {BACKENDS_MAX} connections", goal="G10",
        measures="from the fault to the next accepted order", strike=kill_backends, rounds=100,
    ),
    Nemesis(
        name="database-kill", does="kill -9 of the PostgreSQL server, and its restart", goal="G10",
        measures="from the moment the database accepts connections to the next accepted order", strike=kill, rounds=10,
        p99_s_max=2.0,
    ),
    Nemesis(
        name="database-failover", does="kill -9 of the primary; a replica that confirmed every commit takes over",
        goal="F12", measures="from the fault to the next accepted order, the promotion included", strike=fail_over,
        rounds=5, scene=Scene(standby=True),
    ),
)  # fmt: skip
