"""Who may hold an office: one process at a time."""

from virtflow.election.contract import Election, Term

__all__ = ["Election", "Term"]
