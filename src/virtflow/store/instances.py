"""Instances, as rows: who takes what from which host."""

from collections import Counter
from collections.abc import AsyncIterator, Hashable, Sequence
from typing import TypeVar

from virtflow.model.instance import Instance, Kind, Status
from virtflow.model.names import derived_vm_name, id_from_derived_vm_name
from virtflow.store.contract import Bind, IdsTaken, InstanceFilter, NamesTaken, Removed, RetryTransaction
from virtflow.store.interned import Interned
from virtflow.store.session import CHUNK_ROWS, Reader, Row, Session, Snapshots
from virtflow.store.shapes import shapes_by_id

_KINDS = tuple(Kind)
_STATUSES = tuple(Status)
_UUID_BYTES = 16
_Thing = TypeVar("_Thing", bound=Hashable)


def instance_from_row(row: Row) -> Instance:
    return Instance(
        id=row[0],
        shape_id=row[1],
        kind=_KINDS[row[2]],
        given_name=given_name(row[0], row[3]),
        status=_STATUSES[row[4]],
        host_id=row[5],
        host=row[6],
        address=row[7],
        generation=row[8],
        observed_generation=row[9],
        version=row[10],
        fence=row[11],
        created_ms=row[12],
        placed_ms=row[13],
    )


def stored_name(key: bytes, given: str | None) -> str | None:
    """The name in the index. A name derived from a UUID needs none, because it leads back to the UUID."""
    if given is None:
        return None if len(key) == _UUID_BYTES else derived_vm_name(key)
    return None if len(key) == _UUID_BYTES and given == derived_vm_name(key) else given


def given_name(key: bytes, stored: str | None) -> str | None:
    if stored is None or (len(key) != _UUID_BYTES and stored == derived_vm_name(key)):
        return None
    return stored


class InstanceReads:
    _near: Reader
    _far: Reader
    _snapshot: Snapshots
    _interned: Interned

    async def instance(self, key: bytes) -> Instance | None:
        rows = await self._near.rows("instance_by_id", key)
        return instance_from_row(rows[0]) if rows else None

    async def instance_by_name(self, name: str) -> Instance | None:
        key = id_from_derived_vm_name(name)
        rows = await self._near.rows("instance_by_id", key) if key else ()
        # a client's own id has a derived name that does not lead back to it
        rows = rows or await self._near.rows("instance_by_name", name)
        found = instance_from_row(rows[0]) if rows else None
        return found if found and found.name == name else None

    async def was_deleted(self, name: str) -> bool:
        key = id_from_derived_vm_name(name)
        if key and await self._near.rows("gone_by_id", key):
            return True
        return bool(await self._near.rows("gone_by_name", name))

    async def instances(self, where: InstanceFilter, *, after: bytes = b"", limit: int) -> list[Instance]:
        return [instance_from_row(row) for row in await self._instance_rows(where, after, limit)]

    async def _instance_rows(self, where: InstanceFilter, after: bytes, limit: int) -> Sequence[Row]:
        if where.host is not None and where.placed is False:
            return ()
        if where.host is not None:
            return await self._far.rows("instances_of_host", after, where.status, where.pool, where.host, limit)
        if where.placed is False:
            return await self._far.rows("instances_waiting", after, where.status, where.pool, limit)
        return await self._far.rows("instances_page", after, where.status, where.placed, where.pool, limit)

    async def scan_instances(self) -> AsyncIterator[list[Removed]]:
        after = b""
        async with self._snapshot() as reader:
            while rows := await reader.rows("instances_page", after, None, None, None, CHUNK_ROWS):
                after = rows[-1][0]
                yield await with_shapes([instance_from_row(row) for row in rows], reader, self._interned)


async def with_shapes(instances: Sequence[Instance], reader: Reader, interned: Interned) -> list[Removed]:
    shapes = await shapes_by_id([instance.shape_id for instance in instances], reader, interned)
    return [Removed(instance=instance, shape=shapes[instance.shape_id]) for instance in instances]


class InstanceWrites:
    _session: Session
    _interned: Interned

    async def add_instances(self, instances: Sequence[Instance]) -> None:
        if not instances:
            return
        names = [stored_name(instance.id, instance.given_name) for instance in instances]
        await self._refuse_taken_names([name for name in names if name is not None], _misleading_names(instances))
        await self._refuse_taken_instances([instance.id for instance in instances])
        rows = [_columns(instance, name) for instance, name in zip(instances, names, strict=True)]
        if await self._session.each("add_instance", rows):
            raise RetryTransaction("somebody else has just used one of these names")

    async def bind_instances(self, binds: Sequence[Bind], *, fence: int) -> frozenset[bytes]:
        if not binds:
            return frozenset()
        rows = [(bind.host_id, bind.placed_ms, fence, bind.instance_id) for bind in binds]
        return frozenset(row[-1] for row in await self._session.each("bind_instance", rows))

    async def remove_instances(self, ids: Sequence[bytes], *, at_ms: int) -> list[Removed]:
        rows = await self._session.rows("instances_by_id", list(ids)) if ids else ()
        if not rows:
            return []
        await self._session.each("remove_instance", [(row[0],) for row in rows])
        await self._session.each("bury_instance", [(at_ms, row[3], row[0]) for row in rows])
        return await with_shapes([instance_from_row(row) for row in rows], self._session, self._interned)

    async def _refuse_taken_names(self, names: list[str], misleading: set[str]) -> None:
        taken = {row[0] for row in await self._session.rows("taken_names", names)} if names else set()
        taken |= repeated(names) | misleading
        if taken:
            raise NamesTaken(sorted(taken))

    async def _refuse_taken_instances(self, ids: list[bytes]) -> None:
        taken = {row[0] for row in await self._session.rows("taken_instance_ids", ids)} | repeated(ids)
        if taken:
            raise IdsTaken(sorted(taken))


def repeated(things: Sequence[_Thing]) -> set[_Thing]:
    """Those that occur more than once."""
    if len(set(things)) == len(things):
        return set()
    return {thing for thing, times in Counter(things).items() if times > 1}


def _misleading_names(instances: Sequence[Instance]) -> set[str]:
    """Given names that spell the id of another instance, and would hide it."""
    return {
        instance.given_name
        for instance in instances
        if instance.given_name
        and id_from_derived_vm_name(instance.given_name)
        and instance.given_name != derived_vm_name(instance.id)
    }


def _columns(instance: Instance, name: str | None) -> Row:
    return (
        instance.shape_id,
        instance.kind,
        instance.status,
        instance.host_id,
        instance.generation,
        instance.observed_generation,
        instance.version,
        instance.fence,
        instance.created_ms,
        instance.placed_ms,
        name,
        instance.id,
    )
