"""Shapes: a number for each, for ever."""

import asyncio

from tests.store.builders import intern, undone
from tests.store.conftest import OpenAnother

from virtflow.model.shape import Dedicated
from virtflow.store.contract import Store
from virtflow.testing.builders import shape


async def test_equal_shapes_have_one_number(store: Store) -> None:
    small, large = shape(cores=1), shape(cores=2, labels={"b": "1", "a": "2"}, weights={"cpu": 0.5})
    async with store.transaction() as tx:
        first = await tx.intern_shapes([small, large, shape(cores=1)])
    async with store.transaction() as tx:
        second = await tx.intern_shapes([large, small])
    assert first == [first[0], first[1], first[0]]
    assert second == [first[1], first[0]]


async def test_shapes_come_back_as_they_were(store: Store, another: OpenAnother, url: str) -> None:
    wanted = shape(
        cores=3, pool="gold", zone="z", dedicated=Dedicated.REQUIRED, strategy="pack", custom={"licences": 2}
    )
    number = await intern(store, wanted)
    assert await store.shapes([number, number + 1]) == {number: wanted}
    assert await store.shapes([]) == {}
    if url.startswith("postgresql"):  # another process has not seen it written
        assert await (await another()).shapes([number]) == {number: wanted}


async def test_a_number_of_a_transaction_that_failed_means_nothing(store: Store) -> None:
    async with undone(store) as tx:
        [lost] = await tx.intern_shapes([shape(cores=1)])
    number = await intern(store, shape(cores=2))
    assert (await store.shapes([number, lost])).get(number) == shape(cores=2)
    assert shape(cores=1) not in (await store.shapes([number, lost])).values()
    again = await intern(store, shape(cores=1))
    assert again != number


async def test_the_same_new_shape_from_many_sides(store: Store) -> None:
    numbers = await asyncio.gather(*(intern(store, shape(cores=5)) for _ in range(10)))
    assert len(set(numbers)) == 1
