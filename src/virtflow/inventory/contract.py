"""What an inventory must do for us: say which hosts there are, and knock when that may have changed."""

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from virtflow.model.host import HostSpec, Source
from virtflow.model.pool import PoolSpec
from virtflow.model.views import SkippedRecord

#: How many skipped records are named; the others are only counted.
SKIPPED_NAMED_MAX = 100
#: Larger answers and files are refused: 64 MiB are more than 100,000 hosts.
INVENTORY_BYTES_MAX = 64 * 2**20

TIMEOUT_S = 5.0


class FoundHost(msgspec.Struct, frozen=True):
    """A host that an inventory lists, and the use that it reports there, in our dimensions (see `foreign_use`)."""

    spec: HostSpec
    reported: dict[str, int] = {}


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """A whole, good answer. `hosts` may be empty: whether to believe that is the caller's to judge."""

    hosts: tuple[FoundHost, ...] = ()
    #: the first ones by name and reason
    skipped: tuple[SkippedRecord, ...] = ()
    #: all of them
    skipped_total: int = 0
    #: settings of pools, where the inventory has any
    pools: tuple[PoolSpec, ...] = ()


class Inventory(Protocol):
    @property
    def source(self) -> Source: ...

    @property
    def location(self) -> str:
        """Where it looks, for people to read: never with a password in it."""
        ...

    async def fetch(self) -> Fetched:
        """Ask now. Raises `Unavailable` when there is no whole answer, whatever the reason; ends by itself."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """Knocks: the answer may have changed. May end at once where nobody tells us; then only the clock asks.

        A knock may come without a change, several changes may make one knock, and it never raises `Unavailable`.
        """
        ...


async def no_knocks() -> AsyncIterator[None]:
    """The changes of an inventory that does not tell."""
    never: tuple[None, ...] = ()
    for knock in never:
        yield knock
