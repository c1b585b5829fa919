"""The host belongs to the pool that the request names."""

from virtflow.engine.columns import Columns, Mask
from virtflow.engine.filters.filter import Filter
from virtflow.model.shape import Shape


def _passes(hosts: Columns, shape: Shape) -> Mask:
    mask: Mask = hosts.pool == hosts.vocabulary.pools.find(shape.pool)
    return mask


in_pool = Filter("in_pool", 'the host belongs to the pool named; "" is a pool of its own', _passes)
