"""A Kubernetes API counts the votes: a Lease object for each office, replaced by compare-and-set.

Its times are for people who look at it; ours are judged by our own clocks, as everywhere. The fence is the database's.
"""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from virtflow.election.ballot import Vote
from virtflow.election.lease_api import Lease, LeaseApi, Refused, Untrusted
from virtflow.model.clock import Clock
from virtflow.model.errors import InvalidSetting, VirtflowError
from virtflow.model.times import time_text

#: a look at the API is dearer than one at the database
LOOKS, CALLS = 4, 4
CHECK_S_MAX = 10.0
_NAMESPACE_BYTES_MAX = 256

#: tells the database who was elected: office, holder, term
Note = Callable[[str, str, int], Awaitable[None]]


class KubernetesBallot:
    """`lease`: `<namespace>/<name>`, or a name in the pod's own namespace."""

    def __init__(
        self, *, url: str, account: Path, lease: str, office: str, me: str, lease_s: float, clock: Clock, note: Note
    ) -> None:
        self.look_s = lease_s / LOOKS
        self.call_s = lease_s / CALLS
        self._url = url
        self._account = account
        self._namespace, _, self._name = lease.rpartition("/")
        self._office = office
        self._me = me
        self._lease_s = lease_s
        self._clock = clock
        self._note = note
        self._known: LeaseApi | None = None
        self._gone = asyncio.Event()

    async def check(self) -> None:
        """Asks for what it will need, without doing it. What is away may come back; who says no must be told first."""
        self._require_account()
        try:
            async with asyncio.timeout(CHECK_S_MAX):
                await self._rehearse()
        except (Refused, Untrusted) as error:
            raise _unusable("election", "kubernetes", error.detail, error.remedy) from error
        except (VirtflowError, TimeoutError):
            pass  # the campaign goes on asking, and health says so

    async def look(self) -> Vote | None:
        return _vote(await self._api.read())

    async def take(self, seen: Vote | None) -> Vote | None:
        now = self._now()
        term = seen.term + 1 if seen is not None else 1
        spec = {
            "holderIdentity": self._me,
            "leaseDurationSeconds": math.ceil(self._lease_s),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": term,
        }
        taken = _vote(await self._written(seen.record if seen is not None else None, spec))
        if taken is not None:
            with contextlib.suppress(VirtflowError):  # for those who look; who leads needs the database anyway
                await self._note(self._office, self._me, taken.term)
        return taken

    async def renew(self, held: Vote) -> Vote | None:
        return await self._changed(held, {"renewTime": self._now()})

    async def leave(self, held: Vote) -> None:
        await self._changed(held, {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": self._now()})

    def gone(self) -> asyncio.Event:
        """Nobody sees more of us than our beats."""
        return self._gone

    async def close(self) -> None:
        if self._known is not None:
            await self._known.close()

    @property
    def _api(self) -> LeaseApi:
        if self._known is None:
            namespace = self._namespace or _first_line(self._account / "namespace")
            self._known = LeaseApi(self._url, account=self._account, namespace=namespace, name=self._name)
        return self._known

    def _require_account(self) -> None:
        needed = ["token", *(["ca.crt"] if self._url.startswith("https:") else [])]
        for name in needed:
            if not (self._account / name).is_file():
                raise _unusable(
                    "kubernetes_account",
                    str(self._account),
                    f"there is no file {name} in it",
                    "run in a pod with a service account, name its folder, or choose VIRTFLOW_ELECTION=database",
                )
        if not self._namespace and not _first_line(self._account / "namespace"):
            raise _unusable(
                "kubernetes_lease",
                self._name,
                f"it has no namespace, and {self._account / 'namespace'} names none",
                "name it as <namespace>/<name>",
            )

    async def _rehearse(self) -> None:
        found = await self._api.read()
        if found is None:
            await self._api.create(self._document({}, {}), dry=True)
        else:
            await self._api.replace(found, dry=True)

    async def _changed(self, held: Vote, changes: dict[str, Any]) -> Vote | None:
        """Also when others wrote a label, or the answer to our own last beat was lost: then it is still ours."""
        written = _vote(await self._written(held.record, changes))
        if written is not None:
            return written
        now = await self.look()
        if now is None or (now.holder, now.term) != (self._me, held.term):
            return None
        return _vote(await self._written(now.record, changes))

    async def _written(self, record: Lease | None, changes: dict[str, Any]) -> Lease | None:
        if record is None:
            return await self._api.create(self._document({}, changes))
        return await self._api.replace(self._document(record, changes))

    def _document(self, record: Lease, changes: dict[str, Any]) -> Lease:
        spec = {**record.get("spec", {}), **changes}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": record.get("metadata", {"name": self._name}),
            "spec": {name: value for name, value in spec.items() if value is not None},
        }

    def _now(self) -> str:
        # the API wants microseconds
        return time_text(self._clock.now_ms()).removesuffix("Z") + "000Z"


def _vote(lease: Lease | None) -> Vote | None:
    if lease is None:
        return None
    spec = lease.get("spec", {})
    term = spec.get("leaseTransitions") or 0
    return Vote(str(spec.get("holderIdentity") or ""), int(term), lease["metadata"]["resourceVersion"], record=lease)


def _first_line(file: Path) -> str:
    try:
        with file.open(encoding="ascii") as opened:
            return opened.read(_NAMESPACE_BYTES_MAX).strip()
    except (OSError, ValueError):
        return ""


def _unusable(setting: str, value: str, cause: str, remedy: str) -> InvalidSetting:
    error = InvalidSetting(f"VIRTFLOW_{setting.upper()}", value, expected=remedy)
    error.detail = f"VIRTFLOW_{setting.upper()}={value!r} cannot be used: {cause}"
    error.args = (error.detail,)
    error.remedy = remedy
    return error
