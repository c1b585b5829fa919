"""Which hosts may carry a shape: the list of filters, in the order they are explained."""

from virtflow.engine.columns import Columns, Mask
from virtflow.engine.filters.dedicated import dedicated
from virtflow.engine.filters.enough_room import enough_room
from virtflow.engine.filters.filter import Filter
from virtflow.engine.filters.in_pool import in_pool
from virtflow.engine.filters.labels import labels
from virtflow.engine.filters.not_self import not_self
from virtflow.engine.filters.pool_accepts_work import pool_accepts_work
from virtflow.engine.filters.schedulable import schedulable
from virtflow.engine.filters.zone import zone
from virtflow.model.shape import Shape

__all__ = [
    "ALL",
    "ROOM",
    "STATIC",
    "Filter",
    "allowed",
    "dedicated",
    "in_pool",
    "labels",
    "not_self",
    "pool_accepts_work",
    "schedulable",
    "zone",
]

#: They look at a host's attributes alone: asked once for each shape and change of a host.
STATIC: tuple[Filter, ...] = (in_pool, not_self, pool_accepts_work, schedulable, dedicated, labels, zone)
#: What is left of a host changes with each placement.
ROOM: Filter = enough_room
ALL: tuple[Filter, ...] = (*STATIC, ROOM)


def allowed(hosts: Columns, shape: Shape) -> Mask:
    """The hosts that every static filter lets pass."""
    mask = STATIC[0].passes(hosts, shape)
    for one in STATIC[1:]:
        mask = mask & one.passes(hosts, shape)
    return mask
