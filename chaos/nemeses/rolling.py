"""No harm at all: every process is replaced in turn, as an upgrade does. F4, G19."""

import asyncio
import random
import time

from chaos.nemeses.nemesis import Nemesis
from chaos.world import World

EXIT_S_MAX = 10.0


class Unclean(Exception):
    """A process did not end as it should."""


async def replace(world: World, chance: random.Random) -> float:
    """The one that has run for longest."""
    await world.some_load(chance.randint(5, 20))
    process = min(world.cluster, key=lambda one: one.starts)
    began_s = time.monotonic()
    status = await asyncio.to_thread(process.terminate, within_s=60)
    taken_s = time.monotonic() - began_s
    if status or taken_s > EXIT_S_MAX:
        raise Unclean(f"{process.name} ended with {status} after {taken_s:.1f} s:\n{process.log_tail()}")
    process.start()
    await asyncio.to_thread(process.wait_until_ready)
    return taken_s


NEMESES = (
    Nemesis(
        name="sigterm", does="SIGTERM of one process after the other, each replaced before the next", goal="F4",
        measures="until the process is gone", strike=replace, rounds=10, p99_s_max=EXIT_S_MAX,
    ),
)  # fmt: skip
