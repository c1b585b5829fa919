"""What a world is made of, beside a database, API processes and schedulers."""

from dataclasses import dataclass

HOSTS, CORES = 50, 4_000
#: where there is less room than is asked for
FEW_HOSTS, FEW_CORES = 20, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a nemesis needs for its harm."""

    #: every process reaches the database through a wire that can be cut
    wired: bool = False
    brokered: bool = False
    #: all reach the broker through one wire
    broker_wired: bool = False
    #: processes that tell a receiver of webhooks of all that becomes of VMs
    relays: int = 0
    #: the wall clock of each process can be turned
    dated: bool = False
    #: room for half of what clients ask for, on so many hosts
    full: bool = False
    full_hosts: int = FEW_HOSTS
    #: a replica that confirms every commit, and takes over
    standby: bool = False

    @property
    def hosts(self) -> int:
        return self.full_hosts if self.full else HOSTS

    @property
    def cores(self) -> int:
        return FEW_CORES if self.full else CORES

    @property
    def places(self) -> int:
        """VMs for which there is room: each has a core."""
        return self.hosts * self.cores
