"""Which seeds to run, and those that once failed: they are run by the tests for ever."""

from collections.abc import Sequence

#: Found something; what, says the list in docs/simulation.md. A seed is a path through the code of its day: after a
#: change it walks another way, which is no worse than any other.
KEPT: Sequence[int] = (9, 37, 38, 45, 59, 82, 86, 136, 229, 268, 320, 386, 418, 486, 592, 835)


def seeds_from(text: str) -> range:
    """`1000`: the first thousand; `17..20`: these four."""
    first, dots, last = text.partition("..")
    seeds = range(int(first), int(last) + 1) if dots else range(1, int(first) + 1)
    if not seeds or seeds[0] < 0:
        raise ValueError(text)
    return seeds
