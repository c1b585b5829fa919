"""A running process of ours, as it says of itself, and how long ago it said so."""

import msgspec

from virtflow.model.health import Status, Unwell, worst
from virtflow.model.lease import Lease


class Process(msgspec.Struct, frozen=True, kw_only=True):
    #: unlike that of any other process, and of an earlier one on the same machine
    id: str
    #: the machine
    node: str
    roles: tuple[str, ...]
    #: where its API answers; empty until it does
    address: str
    version: str
    #: by its own clock
    started_ms: int
    #: what does not work as it should, as it said last
    unwell: tuple[Unwell, ...] = ()
    #: by the clock of the database
    seen_ms: int = 0
    #: how long it has been silent
    silent_ms: int = 0


class ProcessView(msgspec.Struct, frozen=True, kw_only=True):
    """A process, and the offices that it holds."""

    process: Process
    leases: tuple[Lease, ...] = ()
    #: it said nothing for longer than a living one does
    is_silent: bool = False

    @property
    def state(self) -> str:
        """Whoever said goodbye does nothing any more, and says that."""
        if not self.process.roles:
            return "stopped"
        return "silent" if self.is_silent else "here"

    @property
    def health(self) -> Status | None:
        """None of who says nothing."""
        return worst(self.process.unwell) if self.state == "here" else None
