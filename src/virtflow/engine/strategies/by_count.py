"""The host with the fewest instances, or the most: by number, not by size."""

from virtflow.engine.scores import instances
from virtflow.engine.strategies.strategy import Strategy

distribute_load = Strategy(
    name="distribute_load",
    optimises="Spreads by number: the host that carries the fewest instances.",
    formula="instances; the lowest wins",
    terms=(instances(),),
    steps=1.0,
)

optimize_utilization = Strategy(
    name="optimize_utilization",
    optimises="Packs by number: the host that carries the most instances.",
    formula="−instances; the lowest wins",
    terms=(instances(-1.0),),
    steps=1.0,
)
