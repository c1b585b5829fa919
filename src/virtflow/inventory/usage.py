"""Use that an inventory reports: whose is it?"""

import enum

from virtflow.model.resources import Resources


class UsageMode(enum.StrEnum):
    """What the numbers of an inventory mean."""

    #: use by others; ours comes on top
    FOREIGN = "foreign"
    #: all use, that of our own VMs included
    TOTAL = "total"
    #: nothing
    IGNORE = "ignore"


def foreign_use(reported: Resources, ours: Resources, mode: UsageMode) -> dict[str, int]:
    """What others use of a host, to be held back there. `ours` is what the ledger says we have taken."""
    if mode is UsageMode.IGNORE:
        return {}
    own = ours if mode is UsageMode.TOTAL else {}
    others = {name: max(0, amount - own.get(name, 0)) for name, amount in reported.items()}
    return {name: amount for name, amount in others.items() if amount}
