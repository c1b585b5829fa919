"""What an instance of one shape takes from the host it stands on."""

from typing import TYPE_CHECKING

from virtflow.engine.columns import NOT_THERE

if TYPE_CHECKING:
    from virtflow.engine.fleet import Fleet
    from virtflow.model.shape import Shape


class Wanted:
    """Moves room of single hosts. Of a dimension that nobody has there is nothing to move."""

    __slots__ = ("_instances", "_views", "columns")

    def __init__(self, fleet: "Fleet", shape: "Shape") -> None:
        find = fleet.columns.vocabulary.dimensions.find
        numbers = [(find(dimension), amount) for dimension, amount in shape.wants if find(dimension) != NOT_THERE]
        self._instances = fleet.instances_view
        self._views = [
            (fleet.room_views[number], fleet.total_views[number], fleet.busy_views[number], amount)
            for number, amount in numbers
        ]
        self.columns = [(fleet.columns.room[number], amount) for number, amount in numbers]

    def fits(self, row: int) -> bool:
        for room, _, _, amount in self._views:  # noqa: SIM110  # a generator would double the time
            if room[row] < amount:
                return False
        return True

    def take(self, row: int) -> bool:
        """One more stands there; says whether yet another one would fit."""
        fits = True
        for room, total, busy, amount in self._views:
            free = room[row] - amount
            room[row] = free
            whole = total[row]
            busy[row] = (whole - free) / (whole or 1)
            if free < amount:
                fits = False
        self._instances[row] += 1
        return fits

    def give(self, row: int) -> None:
        """One less stands there."""
        for room, total, busy, amount in self._views:
            free = room[row] + amount
            room[row] = free
            whole = total[row]
            busy[row] = (whole - free) / (whole or 1)
        self._instances[row] -= 1
