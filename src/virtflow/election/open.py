"""Which elections there are: alone, by the database, or by Kubernetes."""

from pathlib import Path
from typing import TYPE_CHECKING

from virtflow.election.alone import Alone
from virtflow.election.candidate import Candidate
from virtflow.election.contract import Election
from virtflow.election.database import DatabaseBallot
from virtflow.model.clock import Clock
from virtflow.store.contract import Store

if TYPE_CHECKING:
    from virtflow.election.ballot import Ballot

_SCHEDULER = "scheduler"


def open_election(
    office: str,
    *,
    store: Store,
    lease_s: float,
    clock: Clock,
    kind: str = "database",
    kubernetes_url: str = "",
    kubernetes_account: Path | None = None,
    kubernetes_lease: str = "",
) -> Election:
    """Opening connects to nobody yet. A store that nobody else writes to needs no votes."""
    if not store.origin:
        return Alone(office)
    ballot: Ballot = DatabaseBallot(store, office=office, me=store.origin, lease_s=lease_s)
    if kind == "kubernetes":
        from virtflow.election.kubernetes import KubernetesBallot  # its library costs every other start 0.1 s

        ballot = KubernetesBallot(
            url=kubernetes_url,
            account=kubernetes_account or Path(),
            lease=lease_of(office, kubernetes_lease),
            office=office,
            me=store.origin,
            lease_s=lease_s,
            clock=clock,
            note=lambda office, holder, term: store.note_lease(office, holder=holder, term=term),
        )
    return Candidate(ballot, office=office, me=store.origin, lease_s=lease_s, clock=clock)


def lease_of(office: str, scheduler_lease: str) -> str:
    """The setting names the scheduler's Lease; those of other offices stand beside it."""
    if office == _SCHEDULER:
        return scheduler_lease
    return f"{scheduler_lease.removesuffix(f'-{_SCHEDULER}')}-{office}"
