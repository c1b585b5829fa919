"""The host takes new work: nobody cordoned it, and its inventory still lists it."""

from virtflow.engine.columns import Columns, Mask
from virtflow.engine.filters.filter import Filter
from virtflow.model.shape import Shape


def _passes(hosts: Columns, shape: Shape) -> Mask:
    return hosts.schedulable


schedulable = Filter("schedulable", "the host is neither cordoned nor missing from its inventory", _passes)
