"""What is remembered, and for whom."""

import pytest

from virtflow.model.resources import DIMENSIONS
from virtflow.store import interned
from virtflow.store.interned import Interned
from virtflow.testing.builders import shape


def test_a_transaction_knows_what_is_below_and_keeps_its_own_to_itself() -> None:
    below = Interned()
    below.learn(1, shape(cores=1))
    above = Interned(below)
    above.learn(2, shape(cores=2))
    assert (above.shape(1), above.shape_id(shape(cores=1))) == (shape(cores=1), 1)
    assert (above.shape(2), above.shape_id(shape(cores=2))) == (shape(cores=2), 2)
    assert (below.shape(2), below.shape_id(shape(cores=2))) == (None, None)
    below.keep(above)
    assert (below.shape(2), below.shape_id(shape(cores=2))) == (shape(cores=2), 2)


def test_dimensions_only_grow() -> None:
    below = Interned()
    longer, shorter = Interned(below), Interned(below)
    longer.learn_dimensions(["a", "b"])
    shorter.learn_dimensions(["a"])
    below.keep(longer)
    below.keep(shorter)
    assert below.dimensions == (*DIMENSIONS, "a", "b")


def test_amounts_and_columns_are_the_same_thing() -> None:
    known = Interned()
    known.learn_dimensions(["licences"])
    columns = known.amounts({"cpu": 5, "licences": 2, "unheard-of": 9}, 8)
    assert columns == [5, 0, 0, 0, 0, 2, 0, 0]
    assert known.resources(columns) == {"cpu": 5, "licences": 2}


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interned, "SHAPES_KEPT_MAX", 10)
    known = Interned()
    for number in range(1, 36):
        known.learn(number, shape(cores=number))
        assert known.shape(number) == shape(cores=number)
    assert sum(known.shape(number) is not None for number in range(1, 36)) <= 10
