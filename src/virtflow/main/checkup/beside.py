"""Work that may hang, beside everything else: nobody waits for its thread, not even the end of the program."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


async def beside(work: Callable[[], _Result]) -> _Result:
    done = concurrent.futures.Future[_Result]()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    # shielded: a thread cannot be cancelled, and one that ends late must find its future as it was
    return await asyncio.shield(asyncio.wrap_future(done))
