"""Harm to whoever leads: G8, G9."""

import asyncio
import random
import time

from chaos.nemeses.nemesis import Nemesis
from chaos.scene import Scene
from chaos.world import PATIENCE_S, World, anywhere

#: a fault comes anywhere in this time
WITHIN_S = 0.3
#: how long a leader is away, in leases
AWAY_MIN, AWAY_MAX = 1.1, 2.5


async def kill(world: World, chance: random.Random) -> float:
    leader = await world.leader()
    await anywhere(chance, WITHIN_S)
    pid, struck_s = leader.pid, time.monotonic()
    await asyncio.to_thread(leader.kill)
    placed = await world.watch.next_placement(after_s=struck_s, not_by=pid, within_s=PATIENCE_S)
    leader.start()
    return placed.seen_s - struck_s


async def pause(world: World, chance: random.Random) -> float:
    leader = await world.leader()
    await anywhere(chance, WITHIN_S)
    pid, struck_s = leader.pid, time.monotonic()
    leader.stop()
    try:
        placed = await world.watch.next_placement(after_s=struck_s, not_by=pid, within_s=PATIENCE_S)
        await _until(struck_s + world.lease_s * chance.uniform(AWAY_MIN, AWAY_MAX))
    finally:
        leader.cont()
    await asyncio.to_thread(leader.wait_until_ready)
    return placed.seen_s - struck_s


async def partition(world: World, chance: random.Random) -> float:
    """Nothing gets through to the database or back, and no connection is closed."""
    leader = await world.leader()
    wire = world.wires[leader.name]
    await anywhere(chance, WITHIN_S)
    pid, struck_s = leader.pid, time.monotonic()
    wire.stall()
    try:
        placed = await world.watch.next_placement(after_s=struck_s, not_by=pid, within_s=PATIENCE_S)
        await _until(struck_s + world.lease_s * chance.uniform(AWAY_MIN, AWAY_MAX))
    finally:
        if chance.random() < 0.5:
            wire.cut()  # what was on its way is lost; otherwise it arrives late
        wire.flow()
    await asyncio.to_thread(leader.wait_until_ready)
    return placed.seen_s - struck_s


async def _until(end_s: float) -> None:
    await asyncio.sleep(max(0.0, end_s - time.monotonic()))


_MEASURES = "from the fault to the next placement of another process"

NEMESES = (
    Nemesis(
        name="leader-kill", does="kill -9 of the leader", goal="G8", measures=_MEASURES, strike=kill, rounds=25,
        p50_s_max=1.0, p99_s_max=2.5,
    ),
    Nemesis(
        name="leader-pause", does="SIGSTOP of the leader for longer than its lease, then SIGCONT", goal="G9",
        measures=_MEASURES, strike=pause, rounds=8,
    ),
    Nemesis(
        name="leader-partition", does="the leader's wire to the database is silent for longer than its lease",
        goal="G9", measures=_MEASURES, strike=partition, rounds=8, scene=Scene(wired=True),
    ),
)  # fmt: skip
