"""How many more instances of a shape fit: now, and after the loss that hurts most."""

import numpy as np

from virtflow.engine import filters
from virtflow.engine.columns import Columns, Ints, Mask
from virtflow.engine.fleet import Fleet
from virtflow.model.capacity import Capacity, Slots
from virtflow.model.shape import Shape


def capacity(fleet: Fleet, shape: Shape) -> Capacity:
    """Exact for every pool, as if the shape named it, and in total. Hosts do not share room, so their slots add up."""
    hosts = fleet.columns
    slots = np.where(_allowed_but_for_the_pool(hosts, shape), slots_of(hosts, shape), 0)
    find = hosts.vocabulary.pools.find
    pools = {name: _count(fleet, np.where(hosts.pool == find(name), slots, 0)) for name in fleet.pool_names}
    return Capacity(total=_count(fleet, slots), pools=pools)


def slots_of(hosts: Columns, shape: Shape) -> Ints:
    """How many instances each host has room for, whatever the static filters say."""
    slots: Ints = np.full(len(hosts), np.iinfo(np.int64).max)
    for dimension, amount in shape.wants:
        slots = np.minimum(slots, hosts.room_of(dimension) // amount)
    return slots


def _allowed_but_for_the_pool(hosts: Columns, shape: Shape) -> Mask:
    mask = np.ones(len(hosts), np.bool_)
    for one in filters.STATIC:
        if one is not filters.in_pool:
            mask &= one.passes(hosts, shape)
    return mask


def _count(fleet: Fleet, slots: Ints) -> Slots:
    now = int(slots.sum())
    if not now:
        return Slots(now=0, after_loss=0, hosts=0)
    biggest = int(slots.argmax())
    return Slots(
        now=now,
        after_loss=now - int(slots[biggest]),
        hosts=int(np.count_nonzero(slots)),
        biggest_host=fleet.names[biggest],
    )
