"""Where hosts come from: the contract of an inventory, and what its numbers mean."""

from virtflow.inventory.contract import Fetched, FoundHost, Inventory, no_knocks
from virtflow.inventory.usage import UsageMode, foreign_use

__all__ = ["Fetched", "FoundHost", "Inventory", "UsageMode", "foreign_use", "no_knocks"]
