"""What never changes once it is written: shapes and the names of custom dimensions, kept in memory."""

from collections.abc import Iterable, Sequence

from virtflow.model.resources import DIMENSIONS, Resources
from virtflow.model.shape import Shape

#: Most fleets know a few hundred shapes. Beyond this the memory is emptied, not grown.
SHAPES_KEPT_MAX = 50_000


class Interned:
    """What one transaction has learnt becomes everybody's at its commit, and never when it rolls back."""

    def __init__(self, below: "Interned | None" = None) -> None:
        self._below = below
        self._shapes: dict[int, Shape] = {}
        self._ids: dict[Shape, int] = {}
        self.dimensions: tuple[str, ...] = below.dimensions if below else DIMENSIONS

    def shape(self, shape_id: int) -> Shape | None:
        return self._shapes.get(shape_id) or (self._below.shape(shape_id) if self._below else None)

    def shape_id(self, shape: Shape) -> int | None:
        return self._ids.get(shape) or (self._below.shape_id(shape) if self._below else None)

    def learn(self, shape_id: int, shape: Shape) -> None:
        if len(self._shapes) >= SHAPES_KEPT_MAX:
            self._shapes.clear()
            self._ids.clear()
        self._shapes[shape_id] = shape
        self._ids[shape] = shape_id

    def learn_dimensions(self, custom: Iterable[str]) -> None:
        self.dimensions = (*DIMENSIONS, *custom)

    def keep(self, newer: "Interned") -> None:
        """The transaction that learnt this has committed."""
        for shape_id, shape in newer._shapes.items():
            self.learn(shape_id, shape)
        if len(newer.dimensions) > len(self.dimensions):
            self.dimensions = newer.dimensions

    def amounts(self, resources: Resources, width: int) -> list[int]:
        """As columns: the known dimensions in their order, then zeros."""
        known = [resources.get(name, 0) for name in self.dimensions[:width]]
        return known + [0] * (width - len(known))

    def resources(self, amounts: Sequence[int]) -> dict[str, int]:
        return {name: amount for name, amount in zip(self.dimensions, amounts, strict=False) if amount}
