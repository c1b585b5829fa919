"""What a filter is."""

from collections.abc import Callable
from dataclasses import dataclass

from virtflow.engine.columns import Columns, Mask
from virtflow.model.shape import Shape


@dataclass(frozen=True, slots=True)
class Filter:
    """A question about every host at once, answered from the columns alone."""

    name: str
    #: which hosts pass
    sentence: str
    passes: Callable[[Columns, Shape], Mask]
