"""Proves I1 to I20 from the tables, the event log and the histories of clients, by itself: nothing that decides or
commits is used, and no record that they make of a row is trusted."""

from virtflow.control.history.check import check_history
from virtflow.control.history.report import Report

__all__ = ["Report", "check_history"]
