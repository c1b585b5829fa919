"""Which elections there are: alone, by the database, or by Kubernetes."""

from virtflow.election.alone import Alone
from virtflow.election.candidate import Candidate
from virtflow.election.contract import Election
from virtflow.election.database import DatabaseBallot
from virtflow.model.clock import Clock
from virtflow.store.contract import Store


def open_election(office: str, *, store: Store, lease_s: float, clock: Clock) -> Election:
    """Opening connects to nobody yet. A store that nobody else writes to needs no votes."""
    if not store.origin:
        return Alone(office)
    ballot = DatabaseBallot(store, office=office, me=store.origin, lease_s=lease_s)
    return Candidate(ballot, office=office, me=store.origin, lease_s=lease_s, clock=clock)
