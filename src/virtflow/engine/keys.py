"""One whole number to compare hosts by: the score, then fewer instances. The lowest key wins, then the lowest name.

Scores are compared in steps, so that the noise of floating point never decides between hosts that are equal on paper.
A built-in strategy has 2**30 steps to 1.0, which is nine decimal digits.
"""

import math
from typing import Final

import numpy as np

from virtflow.engine.columns import Floats, Ints

#: the key of a host that must not be chosen: larger than every other
IMPOSSIBLE: Final = 2**63 - 1
#: the low bits of a key count instances
INSTANCE_BITS: Final = 20
INSTANCES_COMPARED_MAX: Final = 2**INSTANCE_BITS - 1
#: scores beyond that many steps are all alike
STEPS_MAX: Final = 2**42 - 1
#: steps to 1.0, where a strategy says nothing else
STEPS: Final = float(2**30)


def keys_of(scores: Floats, instances: Ints, steps: float) -> Ints:
    """The keys of many hosts."""
    rounded = np.floor(scores * steps + 0.5)
    np.minimum(rounded, STEPS_MAX, out=rounded)  # twice as fast as np.clip
    np.maximum(rounded, -STEPS_MAX, out=rounded)
    keys = rounded.astype(np.int64)
    keys <<= INSTANCE_BITS
    keys |= np.minimum(instances, INSTANCES_COMPARED_MAX)
    return keys


def key_of(score: float, instances: int, steps: float) -> int:
    """The key of one host: the same arithmetic."""
    rounded = math.floor(score * steps + 0.5)
    if not -STEPS_MAX <= rounded <= STEPS_MAX:
        rounded = STEPS_MAX if rounded > 0 else -STEPS_MAX
    return (rounded << INSTANCE_BITS) | (instances if instances < INSTANCES_COMPARED_MAX else INSTANCES_COMPARED_MAX)


def score_of(key: int, steps: float) -> float:
    """The score that a key stands for, as exact as scores are compared."""
    return (key >> INSTANCE_BITS) / steps
