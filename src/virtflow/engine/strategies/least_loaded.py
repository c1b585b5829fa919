"""The host that is least utilised over all, or in one dimension."""

from virtflow.engine.scores import busy
from virtflow.engine.strategies.strategy import Strategy
from virtflow.model.resources import CPU, DISK, MEMORY

least_loaded = Strategy(
    name="least_loaded",
    optimises="Spreads load: the host with the lowest utilisation over processor, memory and disk.",
    formula="0.4 × busy cpu + 0.4 × busy memory + 0.2 × busy disk; the lowest wins",
    terms=(busy(CPU, 0.4), busy(MEMORY, 0.4), busy(DISK, 0.2)),
)

cpu = Strategy(
    name="cpu",
    optimises="Spreads processor load: the host with the lowest utilisation of cpu.",
    formula="busy cpu; the lowest wins",
    terms=(busy(CPU),),
)

memory = Strategy(
    name="memory",
    optimises="Spreads memory load: the host with the lowest utilisation of memory.",
    formula="busy memory; the lowest wins",
    terms=(busy(MEMORY),),
)
