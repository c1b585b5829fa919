"""May we vote, and is somebody in office?"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from virtflow.config import Config
from virtflow.control.clock import SystemClock
from virtflow.main.parts import make_election, make_store
from virtflow.model.errors import InvalidSetting, VirtflowError
from virtflow.model.finding import Finding, bad, ok, warn
from virtflow.model.lease import Lease
from virtflow.store.open import open_store

PART = "election"
OFFICES = ("scheduler", "relay")
#: beats are looked at for a little longer than the lease lasts, but not for ever
LOOK_S_MAX = 6.0


async def check_election(config: Config) -> Sequence[Finding]:
    if not config.is_shared:
        return [ok(PART, "an embedded database has one process, which leads")]
    return [*await _check_votes(config), *await _check_offices(config)]


async def _check_votes(config: Config) -> Sequence[Finding]:
    """Asks for what an election will need, without doing it."""
    if config.election != "kubernetes":
        return []  # the rights on the database are looked at with it
    election = make_election(OFFICES[0], config, make_store(config), SystemClock())
    try:
        await election.check()
    except InvalidSetting as error:
        return [bad(PART, error.detail, error.remedy)]
    finally:
        await election.close()
    return [ok(PART, f"Kubernetes does not refuse us the Lease {config.kubernetes_lease}")]


async def _check_offices(config: Config) -> Sequence[Finding]:
    try:
        store = open_store(config.database_url.reveal(), reading=True)
        await store.open()
    except VirtflowError:
        return []  # said where the database is looked at
    try:
        before = {lease.office: lease for lease in await store.leases()}
        await asyncio.sleep(min(1.5 * config.lease_s, LOOK_S_MAX))
        after = {lease.office: lease for lease in await store.leases()}
    finally:
        await store.close()
    return list(judge_offices(before, after, is_counted_here=config.election == "database"))


def judge_offices(
    before: Mapping[str, Lease], after: Mapping[str, Lease], *, is_counted_here: bool
) -> Iterator[Finding]:
    """Two looks, more than a lease apart. Kubernetes keeps the beats of its elections to itself."""
    for office in OFFICES:
        was, now = before.get(office), after.get(office)
        if now is None or not now.holder:
            yield warn(PART, f"nobody is the {office}", f"start one: virtflow serve --role {office}")
        elif is_counted_here and was == now:
            yield bad(PART, f"{now.holder} holds the office {office} and shows no sign of life", "see its log")
        else:
            yield ok(PART, f"{now.holder} is the {office}, in term {now.term}")
