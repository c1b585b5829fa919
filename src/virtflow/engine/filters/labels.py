"""The host carries every label that the request asks for."""

import numpy as np

from virtflow.engine.columns import Columns, Label, Mask
from virtflow.engine.filters.filter import Filter
from virtflow.model.shape import Shape


def carries(hosts: Columns, wanted: tuple[Label, ...]) -> Mask:
    """Key and value must both be there: a wanted label without value is not met by a host without the key."""
    if not wanted:
        return np.ones(len(hosts), np.bool_)
    # Hosts share few label sets, so each set is judged once.
    numbers, positions = np.unique(hosts.label_set, return_inverse=True)
    words = hosts.vocabulary.label_sets.words
    judged = np.array([all(label in words[number] for label in wanted) for number in numbers.tolist()], np.bool_)
    return judged[positions]


def _passes(hosts: Columns, shape: Shape) -> Mask:
    return carries(hosts, shape.labels)


labels = Filter("labels", "the host carries every label of the request, key and value", _passes)
