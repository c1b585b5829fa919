"""A house that is full while its leader dies: the race for the last room. G15."""

import asyncio
import random
import time

from chaos.nemeses.nemesis import Nemesis
from chaos.scene import Scene
from chaos.world import PATIENCE_S, World, anywhere

#: a fault comes anywhere in this time
WITHIN_S = 0.3


async def kill_at_the_door(world: World, chance: random.Random) -> float:
    """Clients want twice the room that there is, and delete: whoever leads next gives what the dead one had in hand."""
    await world.full_house()
    leader = await world.leader()
    await anywhere(chance, WITHIN_S)
    pid, struck_s = leader.pid, time.monotonic()
    if chance.random() < 0.5:
        await asyncio.to_thread(leader.kill)
    else:
        leader.stop()
    try:
        placed = await world.watch.next_placement(after_s=struck_s, not_by=pid, within_s=PATIENCE_S)
    finally:
        if leader.is_stopped:  # it wakes up in the middle of a decision
            leader.cont()
        else:
            leader.start()
    await asyncio.to_thread(leader.wait_until_ready)
    return placed.seen_s - struck_s


NEMESES = (
    Nemesis(
        name="full-house", does="kill -9 or SIGSTOP of the leader while twice as many want in as there is room for",
        goal="G15", measures="from the fault to the next placement of another process, in the room of somebody deleted",
        strike=kill_at_the_door, rounds=10, scene=Scene(full=True),
    ),
)  # fmt: skip
