"""How many more instances of one shape fit."""

import msgspec


class Slots(msgspec.Struct, frozen=True, kw_only=True):
    """Exact counts: so many instances could be placed one after the other, now or after a loss."""

    now: int
    #: when the host whose loss costs the most slots is gone
    after_loss: int
    #: hosts with room for at least one
    hosts: int
    #: the host whose loss costs the most, the first by name of several; "" without room. For operators only
    biggest_host: str = ""


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The shape's own pool is not asked for: every pool is answered as if the shape named it."""

    total: Slots
    #: pool -> slots, by name
    pools: dict[str, Slots]
