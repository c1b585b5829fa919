"""Harm to whoever tells receivers of webhooks what happened."""

import asyncio
import random
import time

from chaos.deliveries import number
from chaos.nemeses.nemesis import Nemesis
from chaos.scene import Scene
from chaos.world import PATIENCE_S, World, anywhere
from virtflow.testing.cluster import Process
from virtflow.testing.receiver import Receiver

OFFICE = "relay"
#: a fault comes anywhere in this time
WITHIN_S = 0.3
#: how long a relay is away, in leases
AWAY_MIN, AWAY_MAX = 1.1, 2.5
#: what the dead one had sent is read by the receiver within so long
ON_ITS_WAY_S = 0.05
#: so long it is looked what one says who woke up
LISTEN_S = 0.5


async def kill(world: World, chance: random.Random) -> float:
    relay = await _relay(world)
    await anywhere(chance, WITHIN_S)
    struck_s = time.monotonic()
    await asyncio.to_thread(relay.kill)
    await _heir_speaks(_hook(world))
    took_s = time.monotonic() - struck_s
    relay.start()
    return took_s


async def pause(world: World, chance: random.Random) -> float:
    """When it wakes up, somebody else has told all that it was about to tell."""
    hook, relay = _hook(world), await _relay(world)
    await anywhere(chance, WITHIN_S)
    struck_s = time.monotonic()
    relay.stop()
    try:
        before = await _heir_speaks(hook)
        took_s = time.monotonic() - struck_s
        away_s = world.lease_s * chance.uniform(AWAY_MIN, AWAY_MAX)
        await asyncio.sleep(max(0.0, struck_s + away_s - time.monotonic()))
    finally:
        awake = len(hook.messages)
        relay.cont()
    await asyncio.sleep(LISTEN_S)
    world.echoes += echoes(hook, since=before, awake=awake, who=relay.name)
    await asyncio.to_thread(relay.wait_until_ready)
    return took_s


async def _relay(world: World) -> Process:
    """Who holds the office, with an heir beside him who is ready."""
    relay = await asyncio.to_thread(world.cluster.wait_for_leader, OFFICE)
    others = [process for process in world.cluster if process.name.startswith(OFFICE) and process is not relay]

    async def is_there() -> bool:
        ready = [await asyncio.to_thread(process.is_ready) for process in others]
        return any(ready)

    await world.until(is_there, f"an heir beside {relay.name}")
    return relay


async def _heir_speaks(hook: Receiver) -> int:
    """Waits for a message that the one who was harmed has not sent; returns how many there were before."""
    await asyncio.sleep(ON_ITS_WAY_S)
    before = len(hook.messages)
    try:
        await hook.until(lambda hook: len(hook.messages) > before, within_s=PATIENCE_S)
    except TimeoutError:
        raise TimeoutError(f"nothing was delivered within {PATIENCE_S:g} s") from None
    return before


def echoes(hook: Receiver, *, since: int, awake: int, who: str) -> list[str]:
    """What came after the waking though the heir had told it: once is his right, twice was the other."""
    told = {number(message) for message in hook.messages[since:awake]}
    return [
        f"event {number(message)} came again after {who} woke up"
        for message in hook.messages[awake:]
        if number(message) in told
    ]


def _hook(world: World) -> Receiver:
    assert world.hook is not None
    return world.hook


_MEASURES = "from the fault to the first message of the other relay"
_SCENE = Scene(relays=2)

NEMESES = (
    Nemesis(
        name="relay-kill", does="kill -9 of the relay that tells a receiver of webhooks", goal="F26",
        measures=_MEASURES, strike=kill, rounds=15, scene=_SCENE,
    ),
    Nemesis(
        name="relay-pause", does="SIGSTOP of that relay for longer than its lease, then SIGCONT", goal="F28",
        measures=_MEASURES, strike=pause, rounds=8, scene=_SCENE,
    ),
)  # fmt: skip
