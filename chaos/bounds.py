"""What a number of rounds without a violation is worth."""

import math
from collections.abc import Sequence


def upper_bound(violations: int, rounds: int, *, confidence: float = 0.95) -> float:
    """The greatest rate of violations that this outcome does not make improbable (Clopper and Pearson, one-sided).

    With none in n rounds it is about 3 / n.
    """
    if rounds == 0 or violations >= rounds:
        return 1.0
    low, high = violations / rounds, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(violations, rounds, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(violations: int, rounds: int, rate: float) -> float:
    """How probable so few violations are at this rate."""
    if rate in (0.0, 1.0):
        return 1.0 - rate
    logs = (
        math.lgamma(rounds + 1) - math.lgamma(k + 1) - math.lgamma(rounds - k + 1)
        + k * math.log(rate) + (rounds - k) * math.log1p(-rate)
        for k in range(violations + 1)
    )  # fmt: skip
    return min(1.0, sum(map(math.exp, logs)))


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that is not exceeded by so many percent of all."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
