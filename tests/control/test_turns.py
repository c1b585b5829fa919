"""Many write at a time, or one reads alone."""

import asyncio

from virtflow.control.turns import Turns


async def test_writers_do_not_wait_for_each_other() -> None:
    turns = Turns()
    async with turns.writing(), turns.writing():
        pass


async def test_a_reader_waits_for_those_who_write_and_new_writers_for_him() -> None:
    turns, seen = Turns(), []

    async def read() -> None:
        async with turns.reading():
            seen.append("read")

    async def write() -> None:
        async with turns.writing():
            seen.append("written")

    async with turns.writing():
        reader = asyncio.create_task(read())
        await asyncio.sleep(0)
        writer = asyncio.create_task(write())
        await asyncio.sleep(0)
        assert seen == []
    await asyncio.gather(reader, writer)
    assert seen == ["read", "written"]


async def test_a_reader_who_gives_up_holds_nobody_up() -> None:
    turns = Turns()
    async with turns.writing():
        reader = asyncio.create_task(turns.reading().__aenter__())
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait([reader])
        async with asyncio.timeout(5), turns.writing():
            pass
