"""Everything about a request that decides where it may go. Most requests repeat a shape."""

import enum

import msgspec

from virtflow.model.resources import VMS


class Dedicated(enum.StrEnum):
    """May, must or must not the host be a dedicated one?"""

    REQUIRED = "required"
    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, cache_hash=True, gc=False):
    """Two requests of one shape are interchangeable for the engine. Tuples, so that a shape can be a key."""

    #: sorted (dimension, amount) without zeros; every VM takes one of `vms`
    wants: tuple[tuple[str, int], ...]
    pool: str = "default"
    dedicated: Dedicated = Dedicated.ALLOWED
    #: sorted (key, value) that the host must carry
    labels: tuple[tuple[str, str], ...] = ()
    zone: str = ""
    #: "" = the pool's, else the installation's
    strategy: str = ""
    #: for strategies with settable weights, sorted
    weights: tuple[tuple[str, float], ...] = ()

    @property
    def resources(self) -> dict[str, int]:
        return dict(self.wants)


def shape(
    resources: dict[str, int],
    *,
    pool: str = "default",
    dedicated: Dedicated = Dedicated.ALLOWED,
    labels: dict[str, str] | None = None,
    zone: str = "",
    strategy: str = "",
    weights: dict[str, float] | None = None,
) -> Shape:
    """The one way to build a shape: sorted, without zeros, and with its place in the VM quota."""
    return Shape(
        wants=tuple(sorted({**{k: v for k, v in resources.items() if v}, VMS: resources.get(VMS) or 1}.items())),
        pool=pool,
        dedicated=dedicated,
        labels=tuple(sorted((labels or {}).items())),
        zone=zone,
        strategy=strategy,
        weights=tuple(sorted((weights or {}).items())),
    )
