"""Knocks between processes: "these tasks wait". They may be lost, doubled or late: the row is the task."""

from virtflow.queue.contract import DeadMessage, LookAt, Observer, Queue, SetAside

__all__ = ["DeadMessage", "LookAt", "Observer", "Queue", "SetAside"]
