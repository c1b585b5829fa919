"""Pools, as rows: the explicit settings, and the names that hosts use."""

import msgspec

from virtflow.model.errors import NotFound, VersionMismatch
from virtflow.model.pool import Pool, PoolSpec
from virtflow.store.contract import RetryTransaction
from virtflow.store.hosts import json_text
from virtflow.store.session import Reader, Row, Session

_spec = msgspec.json.Decoder(PoolSpec).decode


def pool_from_row(row: Row) -> Pool:
    spec, version, created_ms, updated_ms = row
    return Pool(spec=_spec(spec), version=version, created_ms=created_ms, updated_ms=updated_ms)


def implicit_pool(name: str) -> Pool:
    """Version 0: what `expected_version` means where nothing was ever said."""
    return Pool(spec=PoolSpec(name=name), explicit=False, version=0)


class PoolReads:
    _near: Reader
    _far: Reader

    async def pool(self, name: str) -> Pool | None:
        if found := await self._near.rows("pool_by_name", name):
            return pool_from_row(found[0])
        return implicit_pool(name) if await self._near.rows("pool_has_hosts", name) else None

    async def pools(self) -> list[Pool]:
        rows = await self._far.rows("all_pools")
        return [implicit_pool(name) if row[0] is None else pool_from_row(row) for name, *row in rows]


class PoolWrites:
    _session: Session

    async def put_pool(self, spec: PoolSpec, *, at_ms: int, expected_version: int | None) -> Pool:
        found = await self._session.rows("pool_version", spec.name)
        version, created_ms = (found[0][0], found[0][2]) if found else (0, at_ms)
        _check_version(spec.name, version, expected_version)
        if found:
            await self._session.rows("change_pool", json_text(spec), at_ms, spec.name)
        elif not await self._session.rows("add_pool", spec.name, json_text(spec), at_ms, at_ms):
            raise RetryTransaction("somebody else has just made this pool")
        return Pool(spec=spec, version=version + 1, created_ms=created_ms, updated_ms=at_ms)

    async def delete_pool(self, name: str, *, expected_version: int | None) -> Pool:
        found = await self._session.rows("pool_version", name)
        if not found:
            raise NotFound(f"pool {name!r} has no settings of its own")
        version, spec, created_ms, updated_ms = found[0]
        _check_version(name, version, expected_version)
        await self._session.rows("delete_pool", name)
        return pool_from_row((spec, version, created_ms, updated_ms))


def _check_version(name: str, version: int, expected: int | None) -> None:
    if expected is not None and version != expected:
        raise VersionMismatch(f"pool {name!r} changed since version {expected}", current_version=version)
