"""Writes of which this process may not learn whether they happened: then its memory is not to be trusted either."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from virtflow.model.errors import OutcomeUnknown
from virtflow.store.contract import Store, Transaction

#: called when memory must be compared with the database anew
Doubt = Callable[[], None]


@contextlib.asynccontextmanager
async def transaction(store: Store, doubt: Doubt) -> AsyncIterator[Transaction]:
    """One of the store, for who tells the mirror afterwards what was written.

    Our own rows are not read back from the log. When the answer to the commit is lost, or the caller hangs up while it
    is under way, nobody would ever tell the mirror.
    """
    is_committing = False
    try:
        async with store.transaction() as tx:
            yield tx
            is_committing = True
    except (OutcomeUnknown, asyncio.CancelledError):
        if is_committing:
            doubt()
        raise
