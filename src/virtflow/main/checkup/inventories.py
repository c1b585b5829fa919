"""Does each inventory answer, and with hosts?"""

from collections.abc import Sequence

from virtflow.config import Config
from virtflow.inventory import Inventory
from virtflow.main.parts import make_inventories
from virtflow.model.errors import VirtflowError
from virtflow.model.finding import Finding, bad, ok, warn

PART = "inventories"


async def check_inventories(config: Config) -> Sequence[Finding]:
    try:
        inventories = make_inventories(config)
    except VirtflowError as error:
        return [bad(PART, error.detail, error.remedy)]
    if not inventories:
        return [ok(PART, "there is none: hosts are registered by hand (virtflow add host)")]
    return [await _check(inventory) for inventory in inventories]


async def _check(inventory: Inventory) -> Finding:
    try:
        fetched = await inventory.fetch()
    except VirtflowError as error:
        return bad(PART, error.detail, error.remedy or "see whether it is up, and whether the token is right")
    text = f"{inventory.location} lists {len(fetched.hosts)} hosts"
    if not fetched.hosts:
        return warn(PART, text, "an answer without hosts is not believed: the last good one stays")
    if fetched.skipped_total:
        first = fetched.skipped[0]
        text += f"; {fetched.skipped_total} records cannot be used"
        return warn(PART, text, f"correct the first one, {first.record}: {first.problem}")
    return ok(PART, text)
