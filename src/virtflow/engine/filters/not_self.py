"""The host does not carry virtflow itself: who decides about a machine must not put it at risk."""

from virtflow.engine.columns import Columns, Mask
from virtflow.engine.filters.filter import Filter
from virtflow.model.shape import Shape


def _passes(hosts: Columns, shape: Shape) -> Mask:
    return ~hosts.carries_virtflow


not_self = Filter("not_self", "the host does not carry virtflow itself", _passes)
