"""What a request demands, taken apart into constraints that can be dropped one by one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from virtflow.engine import filters
from virtflow.engine.columns import Columns, Ints, Label, Mask
from virtflow.engine.filters.enough_room import fits
from virtflow.engine.filters.labels import carries
from virtflow.model.shape import Shape


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """One filter, or the part of one that speaks of one label or one dimension."""

    filter: str
    refused: Mask
    label: Label | None = None
    dimension: str = ""


def constraints_of(hosts: Columns, shape: Shape) -> list[Constraint]:
    """Together they refuse exactly the hosts that the filters refuse."""
    found = []
    for one in filters.STATIC:
        if one is filters.labels:
            found += [Constraint(one.name, ~carries(hosts, (label,)), label=label) for label in shape.labels]
        else:
            found.append(Constraint(one.name, ~one.passes(hosts, shape)))
    for dimension, amount in shape.wants:
        refused = ~fits(hosts, dimension, amount)
        found.append(Constraint(filters.ROOM.name, refused, dimension=dimension))
    return found


def refused_by_filter(constraints: Sequence[Constraint]) -> dict[str, Mask]:
    """Filter -> the hosts it refuses, in the order of the filters."""
    refused: dict[str, Mask] = {}
    for one in constraints:
        refused[one.filter] = refused[one.filter] | one.refused if one.filter in refused else one.refused
    return refused


def violations(constraints: Sequence[Constraint]) -> dict[int, Ints]:
    """Which set of constraints, as the bits of a number, is violated by which hosts. Hosts that fit have 0."""
    table = np.stack([one.refused for one in constraints])
    packed = np.ascontiguousarray(np.packbits(table, axis=0, bitorder="little").T)
    width = packed.shape[1]
    sets, which = np.unique(packed.view(f"S{width}").ravel(), return_inverse=True)
    rows = np.argsort(which, kind="stable")
    parts = np.split(rows, np.cumsum(np.bincount(which, minlength=len(sets)))[:-1])
    return {int.from_bytes(bits, "little"): part for bits, part in zip(sets.tolist(), parts, strict=True)}


def minimal(sets: Sequence[int]) -> list[int]:
    """Those that contain no other: exactly the smallest sets of constraints whose dropping lets some host in."""
    kept: list[int] = []
    for candidate in sorted(sets, key=lambda bits: (bits.bit_count(), bits)):
        if not any(smaller & candidate == smaller for smaller in kept):
            kept.append(candidate)
    return kept
