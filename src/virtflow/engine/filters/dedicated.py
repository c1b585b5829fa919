"""The host is a dedicated one, or is not, as the request demands."""

import numpy as np

from virtflow.engine.columns import Columns, Mask
from virtflow.engine.filters.filter import Filter
from virtflow.model.shape import Dedicated, Shape


def _passes(hosts: Columns, shape: Shape) -> Mask:
    if shape.dedicated is Dedicated.REQUIRED:
        return hosts.dedicated
    if shape.dedicated is Dedicated.FORBIDDEN:
        return ~hosts.dedicated
    return np.ones(len(hosts), np.bool_)


dedicated = Filter("dedicated", "the host is dedicated where that is required, and is not where forbidden", _passes)
