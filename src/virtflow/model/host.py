"""A bare-metal machine that can carry instances."""

import enum

import msgspec

from virtflow.model.resources import NOTHING, Resources


class Source(enum.StrEnum):
    """Who told us about a host, and therefore who may say that it is gone."""

    API = "api"
    FILE = "file"
    HTTP = "http"
    SIMULATED = "simulated"


class HostSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said about a host, by an operator or by an inventory."""

    name: str
    pool: str = "default"
    address: str = ""
    capacity: dict[str, int] = {}
    #: per dimension; a dimension not named here follows the pool
    overcommit: dict[str, float] = {}
    reserved: dict[str, int] = {}
    labels: dict[str, str] = {}
    zone: str = ""
    rack: str = ""
    model: str = ""
    dedicated: bool = False


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A host as the database has it, with its room."""

    id: int
    spec: HostSpec
    cordoned: bool = False
    source: Source = Source.API
    #: use that an inventory reports and that is not ours; held back like `reserved`
    foreign: dict[str, int] = {}
    #: since when the source no longer lists it; None = it does
    missing_since_ms: int | None = None
    #: it runs virtflow itself. Not in the database: follows from settings and from where processes run
    carries_virtflow: bool = False
    version: int = 1
    created_ms: int = 0
    updated_ms: int = 0
    #: capacity x ratio, before anything is held back: what utilisation is measured against
    total: Resources = NOTHING
    #: what may be given away in all
    allocatable: Resources = NOTHING
    #: what the ledger says is taken
    used: Resources = NOTHING
    instances: int = 0

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def is_in_service(self) -> bool:
        return not self.cordoned and self.missing_since_ms is None

    @property
    def is_schedulable(self) -> bool:
        """Takes new instances, as far as there is room."""
        return self.is_in_service and not self.carries_virtflow

    @property
    def free(self) -> dict[str, int]:
        return {name: max(0, amount - self.used.get(name, 0)) for name, amount in self.allocatable.items()}
