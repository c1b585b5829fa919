"""Knocks between processes: "these tasks wait". They may be lost, doubled or late: the row is the task."""

from virtflow.queue.contract import LookAt, Queue

__all__ = ["LookAt", "Queue"]
