"""Whole numbers per named dimension, and how much of a host may be given away."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType

#: dimension -> amount. Read it, never change it: a change makes a new mapping.
Resources = Mapping[str, int]

CPU, MEMORY, DISK, GPU, VMS = "cpu", "memory", "disk", "gpu", "vms"
#: The built-in dimensions, in the order of their columns and arrays. Custom ones follow.
DIMENSIONS = (CPU, MEMORY, DISK, GPU, VMS)
UNITS = MappingProxyType({CPU: "millicores", MEMORY: "MiB", DISK: "GiB", GPU: "", VMS: ""})

NOTHING: Resources = MappingProxyType({})


def plus(left: Resources, right: Resources) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


def minus(left: Resources, right: Resources) -> dict[str, int]:
    """What is left, never below zero: an overfull host has no room, not endless room."""
    return {name: max(0, amount - right.get(name, 0)) for name, amount in left.items()}


def shortfall(free: Resources, wanted: Resources) -> dict[str, int]:
    """What is missing per dimension; empty when it fits."""
    return {name: amount - free.get(name, 0) for name, amount in wanted.items() if amount > free.get(name, 0)}


def with_ratio(capacity: Resources, overcommit: Mapping[str, float]) -> dict[str, int]:
    """Capacity x overcommit ratio, rounded down, exact for every decimal ratio somebody can type."""
    if not overcommit:
        return dict(capacity)
    return {name: int(amount * Fraction(str(overcommit.get(name, 1)))) for name, amount in capacity.items()}


def allocatable(capacity: Resources, overcommit: Mapping[str, float], reserved: Iterable[Resources]) -> dict[str, int]:
    """capacity x overcommit ratio - reserved, per dimension, never below zero."""
    room = with_ratio(capacity, overcommit)
    for held in reserved:
        room = minus(room, held)
    return room


def without_zeros(resources: Resources) -> dict[str, int]:
    return {name: amount for name, amount in resources.items() if amount}


def in_words(dimension: str, amount: int) -> str:
    """An amount as people say it: 'cpu 1.5 cores', 'memory 2 GiB', 'licences 3'."""
    if dimension == CPU:
        return f"cpu {amount / 1000:g} cores"
    if dimension == MEMORY:
        return f"memory {amount / 1024:g} GiB" if amount >= 1024 and amount % 256 == 0 else f"memory {amount} MiB"
    unit = UNITS.get(dimension, "")
    return f"{dimension} {amount} {unit}".rstrip()
