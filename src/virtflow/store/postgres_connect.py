"""Connections to PostgreSQL: of several servers, to the one that writes.

All of them are asked at once. A dead machine answers nothing, and must not be waited for before the next one is tried.
"""

import asyncio
from typing import Any

import asyncpg

from virtflow.model.servers import each_server

PRIMARY, ANY = "primary", "any"


async def connect(url: str, *, timeout: float, target_session_attrs: str | None = PRIMARY, **more: Any) -> Any:
    """To the first that answers and is what is wanted (None: what the URL says, or any). Raises as asyncpg does."""
    more.update(timeout=timeout, target_session_attrs=target_session_attrs)
    servers = each_server(url)
    if len(servers) == 1:
        return await asyncpg.connect(url, **more)
    trying = [asyncio.ensure_future(asyncpg.connect(server, **more)) for server in servers]
    try:
        return await _first(trying)
    finally:
        for each in trying:
            each.cancel()
            each.add_done_callback(_hang_up)


async def _first(trying: list[asyncio.Future[Any]]) -> Any:
    pending = set(trying)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            if each.exception() is None:
                trying.remove(each)  # it is the caller's; the others are hung up
                return each.result()
    raise _most_telling([error for each in trying if (error := each.exception()) is not None])


def _most_telling(errors: list[BaseException]) -> BaseException:
    """One server that refuses us says more than another that is away; and a replica says more than that, too."""
    return next((error for error in errors if not isinstance(error, OSError | TimeoutError)), errors[0])


def _hang_up(trying: asyncio.Future[Any]) -> None:
    if not trying.cancelled() and trying.exception() is None:
        trying.result().terminate()
