"""Wall clocks that jump while everybody goes on: G9, F31."""

import random
import time

from chaos.nemeses.nemesis import Nemesis
from chaos.scene import Scene
from chaos.world import PATIENCE_S, World, anywhere
from virtflow.testing.cluster import Process

#: a fault comes anywhere in this time
WITHIN_S = 0.3
#: from minutes to a day, forwards and backwards
JUMPS_S = (120, 3_600, 86_400)
#: a clock that jumped is wrong for so long, and then right again or wrong in another way
WRONG_S = 1.0


async def jump(world: World, chance: random.Random) -> float:
    """Of anybody: an API process, a follower, or whoever leads."""
    return await _turn(world, chance.choice([*world.apis, *world.schedulers]), chance)


async def jump_of_leader(world: World, chance: random.Random) -> float:
    return await _turn(world, await world.leader(), chance)


async def _turn(world: World, process: Process, chance: random.Random) -> float:
    """It jumps; every second time it is put right again, which is a jump as well."""
    clock = process.clock
    assert clock is not None
    await world.full_house()  # there are those who wait for their next try or their deadline
    await anywhere(chance, WITHIN_S)
    clock.turn(chance.choice((-1, 1)) * chance.choice(JUMPS_S))
    struck_s = time.monotonic()
    placed = await world.watch.next_placement(after_s=struck_s, within_s=PATIENCE_S)
    await world.next_acceptance(after_s=struck_s)
    await anywhere(chance, WRONG_S)
    if chance.random() < 0.5:
        clock.turn(0)
    return placed.seen_s - struck_s


_MEASURES = "from the jump to the next placement"
_SCENE = Scene(dated=True, full=True)

NEMESES = (
    Nemesis(
        name="clock-jump", does="the wall clock of a process jumps by minutes to a day, forwards or backwards",
        goal="G9", measures=_MEASURES, strike=jump, rounds=20, scene=_SCENE,
    ),
    Nemesis(
        name="leader-clock-jump", does="the same of the leader", goal="G9", measures=_MEASURES, strike=jump_of_leader,
        rounds=20, scene=_SCENE,
    ),
)  # fmt: skip
