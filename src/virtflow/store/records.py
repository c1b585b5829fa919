"""All nouns together: what both databases share of a store and of its transactions."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from virtflow.model.errors import Fenced
from virtflow.store.answers import AnswerReads, AnswerWrites
from virtflow.store.dead import DeadReads, DeadWrites
from virtflow.store.events import EventReads
from virtflow.store.histories import HistoriesReads, HistoriesWrites
from virtflow.store.history import HistoryReads
from virtflow.store.hosts import HostReads, HostWrites
from virtflow.store.instances import InstanceReads, InstanceWrites
from virtflow.store.interned import Interned
from virtflow.store.outlets import OutletReads, OutletWrites
from virtflow.store.pools import PoolReads, PoolWrites
from virtflow.store.processes import ProcessReads, ProcessWrites
from virtflow.store.room import RoomWrites
from virtflow.store.secrets import SecretReads, SecretWrites
from virtflow.store.session import Reader, Row, Session
from virtflow.store.shapes import ShapeReads, ShapeWrites
from virtflow.store.tasks import TaskReads, TaskWrites
from virtflow.store.vault import CLEAR, Vault
from virtflow.store.webhooks import WebhookReads, WebhookWrites


class Reads(
    HostReads,
    PoolReads,
    ShapeReads,
    InstanceReads,
    TaskReads,
    AnswerReads,
    EventReads,
    OutletReads,
    DeadReads,
    HistoryReads,
    ProcessReads,
    HistoriesReads,
    WebhookReads,
    SecretReads,
):
    """Needs `_near` for single rows, `_far` for lists, `_snapshot` for everything at once, and `_interned`."""

    #: what seals and opens secrets; whoever has keys says so
    _vault: Vault = CLEAR

    @property
    def vault(self) -> Vault:
        return self._vault

    async def setting(self, key: str) -> str | None:
        rows = await self._near.rows("setting", key)
        return rows[0][0] if rows else None

    @contextlib.asynccontextmanager
    async def moment(self) -> AsyncIterator["ReadsOfAMoment"]:
        async with self._snapshot() as reader:
            yield ReadsOfAMoment(reader, self._interned, self._vault)


class ReadsOfAMoment(Reads):
    """The same reads, all of one snapshot."""

    def __init__(self, reader: Reader, interned: Interned, vault: Vault = CLEAR) -> None:
        self._vault = vault
        self._near = self._far = reader
        self._snapshot = lambda: contextlib.nullcontext(reader)
        self._interned = Interned(interned)


class Writes(
    HostWrites,
    PoolWrites,
    RoomWrites,
    ShapeWrites,
    InstanceWrites,
    TaskWrites,
    AnswerWrites,
    HistoriesWrites,
    OutletWrites,
    ProcessWrites,
    DeadWrites,
    WebhookWrites,
    SecretWrites,
):
    """One transaction; `interned` is its own until it commits."""

    def __init__(self, session: Session, interned: Interned, origin: str, vault: Vault = CLEAR) -> None:
        self._vault = vault
        self._session = session
        self._interned = interned
        self._origin = origin

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        """A single statement, as the nouns have it."""
        return await self._session.rows(name, *arguments)

    async def take_fence(self) -> int:
        await self._session.rows("free_fence")
        return int((await self._session.rows("take_fence"))[0][0])

    async def check_fence(self, epoch: int) -> None:
        newest = (await self._session.rows("fence"))[0][0]
        if newest != epoch:
            raise Fenced(f"epoch {epoch} is over, the leader of epoch {newest} decides", remedy="stand back")

    async def set_setting(self, key: str, value: str) -> None:
        await self._session.rows("set_setting", key, value)
