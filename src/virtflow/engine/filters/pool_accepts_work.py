"""The host's pool takes new work."""

import numpy as np

from virtflow.engine.columns import Columns, Mask
from virtflow.engine.filters.filter import Filter
from virtflow.model.shape import Shape


def _passes(hosts: Columns, shape: Shape) -> Mask:
    words = hosts.vocabulary
    if not words.closed_pools:
        return np.ones(len(hosts), np.bool_)
    is_open = np.array([name not in words.closed_pools for name in words.pools.words], np.bool_)
    return is_open[hosts.pool]


pool_accepts_work = Filter("pool_accepts_work", "the host's pool takes new work", _passes)
