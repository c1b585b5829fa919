"""The one thing that is ever placed: it takes resources on one host."""

import enum

import msgspec

from virtflow.model.names import derived_vm_name, id_to_text


class Kind(enum.IntEnum):
    """Stored as these numbers: add at the end, never renumber."""

    VM = 0
    REPLICA = 1
    RESERVATION = 2


class Status(enum.IntEnum):
    PENDING = 0
    RUNNING = 1
    FAILED = 2
    UNKNOWN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the ledger: with a host it takes its shape's resources there, without one it waits."""

    id: bytes
    shape_id: int
    kind: Kind = Kind.VM
    #: None = the derived name
    given_name: str | None = None
    status: Status = Status.PENDING
    host_id: int | None = None
    host: str | None = None
    address: str | None = None
    generation: int = 1
    observed_generation: int = 0
    version: int = 1
    #: the epoch of the leader that placed it
    fence: int = 0
    created_ms: int = 0
    placed_ms: int | None = None

    @property
    def name(self) -> str:
        return self.given_name or derived_vm_name(self.id)

    @property
    def id_text(self) -> str:
        return id_to_text(self.id)
