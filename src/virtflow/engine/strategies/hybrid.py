"""The host with the lowest utilisation, by weights of one's own."""

from virtflow.engine.scores import busy
from virtflow.engine.strategies.strategy import Strategy
from virtflow.model.resources import CPU, DISK, GPU, MEMORY

hybrid = Strategy(
    name="hybrid",
    optimises="Spreads load by weights that the installation or the request sets.",
    formula="w.cpu × busy cpu + w.memory × busy memory + w.disk × busy disk + w.gpu × busy gpu; the lowest wins",
    terms=(
        busy(CPU, 0.5, setting="cpu"),
        busy(MEMORY, 0.5, setting="memory"),
        busy(DISK, 0.0, setting="disk"),
        busy(GPU, 0.0, setting="gpu"),
    ),
)
