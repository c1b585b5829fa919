"""Which elections there are: alone, by the database, or by Kubernetes."""

from virtflow.election.alone import Alone
from virtflow.election.contract import Election


def open_election(office: str) -> Election:
    return Alone(office)
