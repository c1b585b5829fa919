"""A named group of hosts; a request names exactly one."""

import msgspec


class PoolSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said about a pool. "" is a pool of its own, not a wildcard."""

    name: str
    #: per dimension; hosts may say otherwise for themselves
    overcommit: dict[str, float] = {}
    #: "" = the strategy of the installation
    strategy: str = ""
    accepts_work: bool = True


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    spec: PoolSpec
    #: False: it exists only because hosts name it
    explicit: bool = True
    version: int = 1
    created_ms: int = 0
    updated_ms: int = 0

    @property
    def name(self) -> str:
        return self.spec.name
