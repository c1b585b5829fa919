"""The judge: what the database says when everything is at rest, beside what clients were told."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos import deliveries, room, times
from chaos.world import World

CHECK_S_MAX = 600
PROOFS_MAX = 5
_NEWEST = "SELECT max(last_seq) FROM event"
_DELAYS = "SELECT accepted_ms, ended_ms - accepted_ms AS delay_ms FROM task WHERE state = 2"


@dataclass(slots=True, kw_only=True)
class Judgement:
    """Of one world at one moment."""

    events: int = 0
    operations: int = 0
    #: invariant -> how often it was broken
    broken: dict[str, int] = field(default_factory=dict)
    #: the first of each, and everything else that is wrong, in words
    words: list[str] = field(default_factory=list)
    #: what else was counted
    figures: dict[str, int] = field(default_factory=dict)
    #: how long each task waited for its host: of those accepted while a part was away, where one was
    delays_s: list[float] = field(default_factory=list)

    @property
    def violations(self) -> int:
        return sum(self.broken.values())


async def judge(world: World) -> Judgement:
    """Everything is mended and comes to rest first; clients go on afterwards."""
    await world.load.pause()
    await world.heal()
    left = await world.rest()
    found = _judgement(await _proof(world))
    if left:
        found.broken["I24"] = left
        found.words.append(f"I24: {left} tasks still wait at rest, though there is room or their time is over")
    if world.load.tally.wrong:
        found.broken["answers"] = len(world.load.tally.wrong)
        found.words += world.load.tally.wrong[:5]
    for look in (room.look, times.look, deliveries.look):
        evidence = await look(world)
        found.figures.update(evidence.figures)
        for one in evidence.findings:
            found.broken[one.id] = found.broken.get(one.id, 0) + one.times
            found.words.append(f"{one.id}: {one.words}")
    found.delays_s = await _delays(world)
    world.load.go_on()
    return found


async def _proof(world: World) -> dict[str, Any]:
    """Of a world at rest: when something happened meanwhile, such as another election, once more."""
    for _ in range(PROOFS_MAX):
        await deliveries.arrive(world)
        before = await world.rows(_NEWEST)
        report = await asyncio.to_thread(_prove, world.url, world.load.files)
        if await world.rows(_NEWEST) == before:
            break
    return report


def _prove(url: str, files: Sequence[Path]) -> dict[str, Any]:
    command = [sys.executable, "-m", "virtflow.main", "fsck", "--history", "--at-rest", "--database-url", url]
    command += [word for file in files for word in ("--clients", str(file))]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=CHECK_S_MAX, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the check could not be made: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))


def _judgement(report: dict[str, Any]) -> Judgement:
    broken = {one["id"]: one["violations"] for one in report["invariants"] if one["violations"]}
    words = [f"{one['id']}: {each['text']}" for one in report["invariants"] for each in one["first"][:3]]
    return Judgement(events=report["events"], operations=report["operations"], broken=broken, words=words)


async def _delays(world: World) -> list[float]:
    windows = world.windows or [(0, 2**62)]
    return [
        row["delay_ms"] / 1000
        for row in await world.rows(_DELAYS)
        if any(began <= row["accepted_ms"] <= ended for began, ended in windows)
    ]
