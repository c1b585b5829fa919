"""Who does harm, one file for each part that is harmed."""

from collections.abc import Mapping

from chaos.nemeses import broker, clock, database, house, leader, relay, rolling
from chaos.nemeses.nemesis import Nemesis

_ALL = (leader, clock, house, database, broker, relay, rolling)

NEMESES: Mapping[str, Nemesis] = {one.name: one for part in _ALL for one in part.NEMESES}

__all__ = ["NEMESES", "Nemesis"]
