"""Secrets at rest: whether all of them can be opened, and all of them under the key of today."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence

import structlog

from virtflow.store.contract import Store
from virtflow.store.secrets import AtRest, Place
from virtflow.store.vault import Vault, missing_keys

log = structlog.get_logger(__name__)

#: rows in one transaction
PAGE = 500
#: as the name of a key: none
IN_THE_CLEAR = ""


async def require_keys(store: Store) -> None:
    """InvalidSetting when something is sealed with a key that this process does not have.

    Dead letters are not looked at: there may be many, and nobody reads their secrets before they are sent again.
    """
    known = await count_by_key(store, places=(Place.WEBHOOK, Place.CALLBACK, Place.DELIVERY))
    unknown = set(known) - store.vault.opens_with - {IN_THE_CLEAR}
    if unknown:
        raise missing_keys(unknown)


async def count_by_key(store: Store, *, places: Iterable[Place] = Place) -> Counter[str]:
    """Secrets by the name of the key that sealed them."""
    counts: Counter[str] = Counter()
    for place in places:
        async for page in _pages(store, place):
            for one in page:
                counts.update(one.keys)
    return counts


async def reseal(store: Store) -> int:
    """Every secret under the key of today: after a key was added, changed or taken away. Returns how many rows."""
    changed = 0
    for place in Place if store.vault.opens_with else ():
        async for page in _pages(store, place):
            due = [one for one in page if not _is_of_today(one, store.vault)]
            if due:
                async with store.transaction() as tx:
                    await tx.reseal(place, due)
            changed += len(due)
    if changed:
        log.info("secrets.resealed", rows=changed, key=store.vault.seals_with or "none")
    return changed


def _is_of_today(one: AtRest, vault: Vault) -> bool:
    return all(name == vault.seals_with for name in one.keys)


async def _pages(store: Store, place: Place) -> AsyncIterator[Sequence[AtRest]]:
    after: str | bytes = "" if place in (Place.WEBHOOK, Place.DEAD) else b""
    while page := await store.secrets_at_rest(place, after=after, limit=PAGE):
        yield page
        after = page[-1].key
