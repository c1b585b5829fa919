"""In every dimension the host has as much left as the request wants."""

import numpy as np

from virtflow.engine.columns import NOT_THERE, Columns, Mask
from virtflow.engine.filters.filter import Filter
from virtflow.model.shape import Shape


def fits(hosts: Columns, dimension: str, amount: int) -> Mask:
    """Amounts wanted are positive, so that an over-full host, whose room is negative, never looks free."""
    number = hosts.vocabulary.dimensions.find(dimension)
    if number == NOT_THERE:
        return np.zeros(len(hosts), np.bool_)
    mask: Mask = hosts.room[number] >= amount
    return mask


def _passes(hosts: Columns, shape: Shape) -> Mask:
    mask = np.ones(len(hosts), np.bool_)
    for dimension, amount in shape.wants:
        mask &= fits(hosts, dimension, amount)
    return mask


enough_room = Filter("enough_room", "in every dimension as much is left as is wanted", _passes)
