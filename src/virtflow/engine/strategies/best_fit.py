"""The host on which the least remains: packs."""

from virtflow.engine.scores import left, room
from virtflow.engine.strategies.strategy import Strategy
from virtflow.model.resources import CPU, DISK, MEMORY

best_fit = Strategy(
    name="best_fit",
    optimises="Packs: the host on which the smallest share of its processor, memory and disk would remain.",
    formula="left cpu + left memory + left disk, each (free − wanted) / total; the lowest wins",
    terms=(left(CPU), left(MEMORY), left(DISK)),
)

best_fit_absolute = Strategy(
    name="best_fit_absolute",
    optimises="Packs by absolute amounts: 1 core counts like 1000 MiB or 1000 GiB, so disk hardly counts.",
    formula="millicores left + MiB left + GiB left; the lowest wins",
    terms=(room(CPU), room(MEMORY), room(DISK)),
    steps=1.0,  # whole numbers already
)
