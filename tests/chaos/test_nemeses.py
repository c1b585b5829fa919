"""One round of each harm that a world can bear beside the others: a slice of `make chaos`, in one world."""

import random
from pathlib import Path

import pytest
from chaos.judge import judge
from chaos.nemeses import NEMESES
from chaos.scene import Scene
from chaos.stage import world
from chaos.world import World

LEASE_S = 1.0
SEED = 7


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.service("postgresql")
@pytest.mark.xdist_group("chaos")
async def test_a_full_house_with_wrong_clocks_and_dying_leaders_and_relays_holds(tmp_path: Path) -> None:
    chance, scene = random.Random(SEED), Scene(full=True, full_hosts=4, dated=True, relays=2)
    async with world(tmp_path / "world", scene, lease_s=LEASE_S, clients=4, seed=SEED) as here:
        for name in ("leader-clock-jump", "full-house", "clock-jump", "relay-pause"):
            await strike(here, chance, name)
        found = await judge(here)
    assert (found.broken, found.words) == ({}, [])
    assert found.figures["placed"] == scene.places
    assert found.figures["events_wanted"] > scene.places


async def strike(here: World, chance: random.Random, name: str) -> None:
    seconds = await NEMESES[name].strike(here, chance)
    assert seconds > 0
