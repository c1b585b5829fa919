"""Why a request found no host: counts, the nearest miss, and the smallest changes that would make it fit."""

import msgspec

from virtflow.model.resources import in_words


class Refusals(msgspec.Struct, frozen=True, kw_only=True):
    """How many hosts one filter refused (each filter is asked about every host of the pool)."""

    filter: str
    hosts: int
    #: hosts that only this filter refused
    alone: int = 0


class NearestMiss(msgspec.Struct, frozen=True, kw_only=True):
    """The host that came nearest, and what it lacks."""

    #: None in the tenants' view
    host: str | None
    #: dimension -> missing amount
    short: dict[str, int] = {}
    #: other filters that refused it
    refused_by: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """'bm-017: memory 2 GiB short'"""
        lacks = [f"{in_words(name, amount)} short" for name, amount in sorted(self.short.items())]
        return f"{self.host or 'the nearest host'}: {', '.join([*lacks, *self.refused_by])}"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A smallest change that would make the request fit, and how many hosts it unlocks."""

    #: drop_label, drop_zone, less, other_pool, dedicated, uncordon
    code: str
    text: str
    hosts: int
    #: the request fields to change, as the API spells them
    request: dict[str, object] = {}


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`text` and `changes` never name a host; only `nearest` does, and tenants get it without."""

    code: str
    text: str
    #: capacity: it may fit later. request: it never will as it stands
    kind: str = "capacity"
    hosts_considered: int = 0
    filters: tuple[Refusals, ...] = ()
    nearest: NearestMiss | None = None
    changes: tuple[Change, ...] = ()

    def for_tenants(self) -> "Explanation":
        if self.nearest is None:
            return self
        return msgspec.structs.replace(self, nearest=msgspec.structs.replace(self.nearest, host=None))
