"""The formula of the first virtflow, in both directions."""

from virtflow.engine.scores import busy, idle
from virtflow.engine.strategies.strategy import Strategy
from virtflow.model.resources import CPU, MEMORY, VMS

virtflow = Strategy(
    name="virtflow",
    optimises="Spreads: the host with the most idle processor, idle memory and unused VM quota.",
    formula="−(w.cpu × idle cpu + w.memory × idle memory − w.vms × busy vms); the lowest wins",
    terms=(
        idle(CPU, -1.0, setting="cpu"),
        idle(MEMORY, -1.0, setting="memory"),
        busy(VMS, 1.0, setting="vms"),
    ),
)

virtflow_packed = Strategy(
    name="virtflow_packed",
    optimises="Packs: the opposite order of virtflow, as its first code had it.",
    formula="w.cpu × idle cpu + w.memory × idle memory − w.vms × busy vms; the lowest wins",
    terms=(
        idle(CPU, 1.0, setting="cpu"),
        idle(MEMORY, 1.0, setting="memory"),
        busy(VMS, -1.0, setting="vms"),
    ),
)
