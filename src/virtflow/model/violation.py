"""A rule that does not hold, as the second opinion found it."""

import msgspec

from virtflow.model.shape import Shape


class HostRoom(msgspec.Struct, frozen=True, kw_only=True):
    """A host as the ledger has it: what it may give, what it says it gave, and what a rule asks about it."""

    id: int
    name: str
    pool: str
    zone: str = ""
    dedicated: bool = False
    labels: dict[str, str] = {}
    allocatable: dict[str, int] = {}
    used: dict[str, int] = {}
    instances: int = 0
    #: capacity fell below what is placed there: too much is no fault of a placement then
    was_shrunk: bool = False


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """An instance and the host whose room it holds."""

    instance: str
    host_id: int
    shape: Shape
    #: False when the host's pool, zone or labels changed after the placing: rules bind at placing time
    rules_bind: bool = True


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    text: str
    host: str = ""
    instance: str = ""
    dimension: str = ""
