"""One nemesis against one world: round after round, and a judgement after each batch."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.judge import Judgement, judge
from chaos.nemeses import Nemesis
from chaos.stage import world
from chaos.world import World

#: rounds until the judge is asked
BATCH = 100


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of a run."""

    nemesis: Nemesis
    rounds: int = 0
    #: of each round
    seconds: list[float] = field(default_factory=list)
    judgement: Judgement = field(default_factory=Judgement)
    operations: int = 0
    put_off: int = 0
    unanswered: int = 0
    failed: int = 0
    slowest_answer_s: float = 0.0
    took_s: float = 0.0

    @property
    def violations(self) -> int:
        return self.judgement.violations

    def add(self, other: "Outcome") -> None:
        """Another run of the same nemesis, in another world."""
        self.rounds += other.rounds
        self.seconds += other.seconds
        mine, theirs = self.judgement, other.judgement
        mine.events += theirs.events
        mine.operations += theirs.operations
        for invariant, times in theirs.broken.items():
            mine.broken[invariant] = mine.broken.get(invariant, 0) + times
        mine.words += theirs.words
        for name, count in theirs.figures.items():
            mine.figures[name] = mine.figures.get(name, 0) + count
        mine.delays_s += theirs.delays_s
        self.operations += other.operations
        self.put_off += other.put_off
        self.unanswered += other.unanswered
        self.failed += other.failed
        self.slowest_answer_s = max(self.slowest_answer_s, other.slowest_answer_s)
        self.took_s += other.took_s


async def run(
    nemesis: Nemesis,
    *,
    rounds: int,
    folder: Path,
    lease_s: float,
    clients: int,
    seed: int,
    say: Callable[[str], None],
) -> Outcome:
    """What the judge finds wrong ends the run; so does a world that does not come back."""
    chance, outcome, began_s = random.Random(seed), Outcome(nemesis=nemesis), time.monotonic()
    async with world(folder, nemesis.scene, lease_s=lease_s, clients=clients, seed=seed) as here:
        for number in range(1, rounds + 1):
            try:
                outcome.seconds.append(await nemesis.strike(here, chance))
            except (AssertionError, TimeoutError) as stuck:
                outcome.judgement.broken["I24"] = 1
                outcome.judgement.words.append(f"round {number}: {stuck}")
                break
            outcome.rounds = number
            if number % BATCH == 0 or number == rounds:
                outcome.judgement = await judge(here)
                if outcome.violations:
                    say(f"{nemesis.name}: WRONG after {number} rounds: {outcome.judgement.broken}")
                    break
                say(f"{nemesis.name}: {number} of {rounds} rounds, {outcome.judgement.events:,} events, all holds")
        _count(here, outcome)
    outcome.took_s = time.monotonic() - began_s
    return outcome


def _count(here: World, outcome: Outcome) -> None:
    tally = here.load.tally
    outcome.operations, outcome.put_off = tally.answered, tally.put_off
    outcome.unanswered, outcome.failed = tally.unanswered, tally.failed
    outcome.slowest_answer_s = tally.slowest_s
