"""Who does harm, one file for each part that is harmed."""

from collections.abc import Mapping

from chaos.nemeses import broker, database, leader, rolling
from chaos.nemeses.nemesis import Nemesis

NEMESES: Mapping[str, Nemesis] = {
    one.name: one for one in (*leader.NEMESES, *database.NEMESES, *broker.NEMESES, *rolling.NEMESES)
}

__all__ = ["NEMESES", "Nemesis"]
