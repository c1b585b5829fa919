"""Virtual time, seeded turns, and processes that stop and die."""

import asyncio
from random import Random

import pytest

from virtflow.testing.simulation.loop import Loop, StuckError, make_loop
from virtflow.testing.simulation.place import Place


def loop(seed: int = 1) -> Loop:
    return make_loop(Random(seed), slice_steps=1.0)


def place(number: int, *, rate: float = 1.0) -> Place:
    return Place(f"p{number}", number=number, rate=rate)


def test_nobody_waits_for_time_to_pass() -> None:
    world = loop()

    async def sleep_long() -> float:
        await asyncio.sleep(3_600)
        return world.time()

    assert 3_600 <= world.run_until(sleep_long(), steps_max=10) < 3_601


def test_a_clock_that_runs_fast_rings_early() -> None:
    world, rung = loop(), list[tuple[str, float]]()

    async def ring(name: str) -> None:
        await asyncio.sleep(10)
        rung.append((name, world.world_s))

    async def main() -> None:
        world.create_task(ring("fast"), context=place(1, rate=2.0).context)
        world.create_task(ring("right"), context=place(2).context)
        await asyncio.sleep(11)

    world.run_until(main(), steps_max=100)
    assert [(name, round(at_s)) for name, at_s in rung] == [("fast", 5), ("right", 10)]


def test_a_stopped_process_wakes_up_late_and_a_dead_one_never() -> None:
    world, woken = loop(), list[tuple[str, float]]()
    stopped, dead = place(1), place(2)

    async def wake_up(name: str) -> None:
        try:
            await asyncio.sleep(1)
            woken.append((name, world.world_s))
        finally:
            woken.append((f"{name} cleaned up", world.world_s))

    async def main() -> None:
        world.create_task(wake_up("stopped"), context=stopped.context)
        world.create_task(wake_up("dead"), context=dead.context)
        await asyncio.sleep(0.5)
        world.stop_place(stopped)
        world.kill_place(dead)
        await asyncio.sleep(4.5)
        world.continue_place(stopped)
        world.continue_place(dead)
        await asyncio.sleep(1)

    world.run_until(main(), steps_max=100)
    assert [(name, round(at_s)) for name, at_s in woken] == [("stopped", 5), ("stopped cleaned up", 5)]
    world.bury()


def test_who_runs_first_follows_from_the_seed_and_within_a_process_from_the_order_of_calls() -> None:
    def order_of(seed: int) -> list[str]:
        world, ran = loop(seed), list[str]()

        async def main() -> None:
            for name in "ab":
                one = place(ord(name))
                for number in range(4):
                    world.call_soon(ran.append, f"{name}{number}", context=one.context)
            await asyncio.sleep(1)

        world.run_until(main(), steps_max=100)
        return ran

    orders = {tuple(order_of(seed)) for seed in range(20)}
    assert len(orders) > 3
    assert order_of(7) == order_of(7)
    for ran in orders:
        assert [one for one in ran if one[0] == "a"] == ["a0", "a1", "a2", "a3"]


def test_waiting_for_nothing_is_an_error() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(StuckError, match="everybody waits"):
        loop().run_until(wait(), steps_max=100)
