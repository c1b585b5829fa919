"""The host stands in the zone that the request names."""

import numpy as np

from virtflow.engine.columns import Columns, Mask
from virtflow.engine.filters.filter import Filter
from virtflow.model.shape import Shape


def _passes(hosts: Columns, shape: Shape) -> Mask:
    if not shape.zone:
        return np.ones(len(hosts), np.bool_)
    mask: Mask = hosts.zone == hosts.vocabulary.zones.find(shape.zone)
    return mask


zone = Filter("zone", "the host stands in the zone named, if one is named", _passes)
