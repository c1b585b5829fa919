"""Outlets: each knows how far it was told, and moves from where it is."""

from tests.store.builders import NOW_MS, event

from virtflow.model.outlet import Outlet, OutletMove
from virtflow.store.contract import Store


def outlet(name: str, *, cursor: int = 0, **more: object) -> Outlet:
    return Outlet(name=name, kind="nats", cursor=cursor, created_ms=NOW_MS, updated_ms=NOW_MS, **more)  # type: ignore[arg-type]


async def add(store: Store, *outlets: Outlet) -> None:
    async with store.transaction() as tx:
        await tx.add_outlets(outlets)


async def move(store: Store, *moves: tuple[str, int, int]) -> frozenset[str]:
    async with store.transaction() as tx:
        return await tx.move_outlets([OutletMove(name=n, was=was, now=now, at_ms=NOW_MS + 1) for n, was, now in moves])


async def test_an_outlet_comes_back_as_it_was_written(store: Store) -> None:
    await add(store, outlet("b", enabled=False, error="no"), outlet("a", cursor=7))
    assert await store.outlet("a") == outlet("a", cursor=7)
    assert await store.outlet("c") is None
    assert await store.outlets() == [outlet("a", cursor=7), outlet("b", enabled=False, error="no")]


async def test_one_that_is_there_already_stays_as_it_is(store: Store) -> None:
    await add(store, outlet("a", cursor=7))
    await add(store, outlet("a", cursor=9), outlet("b", cursor=9))
    assert [(one.name, one.cursor) for one in await store.outlets()] == [("a", 7), ("b", 9)]


async def test_outlets_move_from_where_they_are(store: Store) -> None:
    await add(store, outlet("a", cursor=1), outlet("b", cursor=2), outlet("c", cursor=3))
    assert await move(store, ("a", 1, 5), ("b", 1, 5), ("gone", 0, 5)) == {"b", "gone"}
    assert [(one.name, one.cursor) for one in await store.outlets()] == [("a", 5), ("b", 2), ("c", 3)]
    assert await move(store, ("a", 5, 4)) == frozenset()  # backwards too: somebody wants to hear it again
    assert await move(store) == frozenset()


async def test_an_error_stays_until_the_outlet_moves(store: Store) -> None:
    await add(store, outlet("a"))
    async with store.transaction() as tx:
        await tx.mark_outlet("a", error="it is away", at_ms=NOW_MS + 5)
    found = await store.outlet("a")
    assert found is not None
    assert (found.error, found.updated_ms) == ("it is away", NOW_MS + 5)
    await move(store, ("a", 0, 3))
    found = await store.outlet("a")
    assert found is not None
    assert (found.error, found.cursor, found.updated_ms) == ("", 3, NOW_MS + 1)


async def test_outlets_are_switched_off_and_on_and_removed(store: Store) -> None:
    await add(store, outlet("a", cursor=4, error="it is away"))
    for enabled in (False, True):
        async with store.transaction() as tx:
            await tx.enable_outlet("a", enabled=enabled, at_ms=NOW_MS + 2)
        found = await store.outlet("a")
        assert found is not None
        assert (found.enabled, found.cursor, found.error) == (enabled, 4, "")
    async with store.transaction() as tx:
        await tx.remove_outlet("a")
        await tx.remove_outlet("never there")
    assert await store.outlets() == []


async def test_an_outlet_says_since_when_it_has_not_been_told_of_something(store: Store) -> None:
    for number in (1, 2):
        async with store.transaction() as tx:
            await tx.append_events([event(number, at_ms=NOW_MS + number)] * 3)
    await add(store, outlet("a"), outlet("b", cursor=2), outlet("c", cursor=3), outlet("d", cursor=6))
    assert [one.waiting_since_ms for one in await store.outlets()] == [NOW_MS + 1, NOW_MS + 1, NOW_MS + 2, None]


async def test_an_outlet_fails_since_its_first_error(store: Store) -> None:
    await add(store, outlet("a"))
    for number, error in enumerate(("it is away", "it refuses us"), start=1):
        async with store.transaction() as tx:
            await tx.mark_outlet("a", error=error, at_ms=NOW_MS + number)
    found = await store.outlet("a")
    assert found is not None
    assert (found.error, found.failing_since_ms) == ("it refuses us", NOW_MS + 1)
    await move(store, ("a", 0, 3))
    found = await store.outlet("a")
    assert found is not None
    assert (found.error, found.failing_since_ms) == ("", None)


async def test_an_outlet_is_left_behind_from_where_it_is_and_what_is_wrong_with_it_stays_wrong(store: Store) -> None:
    await add(store, outlet("a", cursor=1))
    async with store.transaction() as tx:
        await tx.mark_outlet("a", error="it is away", at_ms=NOW_MS + 1)
        assert await tx.leave_outlet("a", was=1, now=5) == 1
        assert await tx.leave_outlet("a", was=5, now=7) == 2
        assert await tx.leave_outlet("a", was=5, now=9) is None
        assert await tx.leave_outlet("gone", was=0, now=9) is None
    found = await store.outlet("a")
    assert found is not None
    assert (found.cursor, found.version, found.error, found.failing_since_ms) == (7, 2, "it is away", NOW_MS + 1)
