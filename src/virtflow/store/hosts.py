"""Hosts and their rooms, as rows."""

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from virtflow.model.errors import Conflict, InvalidRequest, NotFound, VersionMismatch
from virtflow.model.host import Host, HostSpec, Source
from virtflow.model.limits import CUSTOM_DIMENSIONS_MAX
from virtflow.model.resources import DIMENSIONS
from virtflow.store.contract import HostFilter, RetryTransaction
from virtflow.store.interned import Interned
from virtflow.store.session import CHUNK_ROWS, Reader, Row, Session, Snapshots

#: Columns per kind of amount: the built-in dimensions and the custom slots.
WIDTH = len(DIMENSIONS) + CUSTOM_DIMENSIONS_MAX

_USED_FROM = 12
#: No filter: pool, zone, cordoned, missing, source, labels.
_ANY_HOST = (None, None, None, None, None, "{}")
_spec = msgspec.json.Decoder(HostSpec).decode
_amounts = msgspec.json.Decoder(dict[str, int]).decode


def host_from_row(row: Row, interned: Interned) -> Host:
    return Host(
        id=row[0],
        spec=_spec(row[1]),
        cordoned=bool(row[2]),
        source=Source(row[3]),
        foreign=_amounts(row[4]),
        missing_since_ms=row[5],
        version=row[6],
        created_ms=row[7],
        updated_ms=row[8],
        total=_amounts(row[9]),
        allocatable=_amounts(row[10]),
        instances=row[11],
        used=interned.resources(row[_USED_FROM:]),
    )


def json_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


async def hosts_from_rows(rows: Sequence[Row], reader: Reader, interned: Interned) -> list[Host]:
    known = len(interned.dimensions)
    if known < WIDTH and any(any(row[_USED_FROM + known :]) for row in rows):
        await read_dimensions(reader, interned)  # another process gave a slot to a new one
    return [host_from_row(row, interned) for row in rows]


async def read_dimensions(reader: Reader, interned: Interned) -> None:
    interned.learn_dimensions(row[0] for row in await reader.rows("dimensions"))


class HostReads:
    _near: Reader
    _far: Reader
    _snapshot: Snapshots
    _interned: Interned

    async def host(self, name: str) -> Host | None:
        found = await self._hosts(self._near, "host_by_name", name)
        return found[0] if found else None

    async def hosts(self, where: HostFilter, *, after: str = "", limit: int) -> list[Host]:
        source = where.source.value if where.source else None
        labels = json_text(dict(where.labels))
        asked = (where.pool, where.zone, where.cordoned, where.missing, source, labels)
        return await self._hosts(self._far, "hosts_page", after, *asked, limit)

    async def all_hosts(self) -> AsyncIterator[list[Host]]:
        after = ""
        async with self._snapshot() as reader:
            while rows := await reader.rows("hosts_page", after, *_ANY_HOST, CHUNK_ROWS):
                hosts = await hosts_from_rows(rows, reader, self._interned)
                after = hosts[-1].name
                yield hosts

    async def hosts_by_name(self, names: Sequence[str]) -> list[Host]:
        return await self._hosts(self._far, "hosts_by_name", list(names)) if names else []

    async def hosts_by_id(self, ids: Sequence[int]) -> list[Host]:
        return await self._hosts(self._far, "hosts_by_id", list(ids)) if ids else []

    async def _hosts(self, reader: Reader, name: str, *arguments: object) -> list[Host]:
        return await hosts_from_rows(await reader.rows(name, *arguments), reader, self._interned)


class HostWrites:
    _session: Session
    _interned: Interned

    async def add_hosts(self, hosts: Sequence[Host]) -> list[int]:
        if not hosts:
            return []
        names = [host.name for host in hosts]
        await self._refuse_taken_hosts(names)
        await self._make_dimensions(hosts)
        if await self._session.each("add_host", [(*_new_columns(host), host.name) for host in hosts]):
            raise RetryTransaction("somebody else has just added one of these hosts")
        ids: dict[str, int] = dict(await self._session.rows("host_ids", names))  # type: ignore[arg-type]
        await self._session.each("add_room", [(*self._limits(host), ids[host.name]) for host in hosts])
        return [ids[name] for name in names]

    async def change_host(self, host: Host, *, expected_version: int | None) -> Host:
        found = await self._session.rows("host_version", host.id)
        if not found:
            raise NotFound(f"no host {host.name}")
        version, name = found[0]
        _check_version(host.name, version, expected_version)
        if name != host.name:
            await self._refuse_taken_hosts([host.name])
        await self._make_dimensions([host])
        await self._session.rows("change_host", host.name, *_columns(host), host.id)
        await self._session.rows("limit_room", *self._limits(host), host.id)
        return await self._host_by_id(host.id)

    async def set_cordon(self, name: str, *, cordoned: bool, at_ms: int, expected_version: int | None) -> Host:
        host_id = await self._hold(name, expected_version)
        await self._session.rows("set_cordon", cordoned, at_ms, host_id)
        return await self._host_by_id(host_id)

    async def delete_host(self, name: str, *, at_ms: int, expected_version: int | None) -> Host:
        host_id = await self._hold(name, expected_version)
        host = await self._host_by_id(host_id)
        if not await self._session.rows("remove_room", host_id):
            raise Conflict(
                f"host {name} carries {host.instances} instances",
                code="host_in_use",
                remedy="cordon it, move or delete its instances, then delete it",
            )
        await self._session.rows("bury_host", at_ms, host_id)
        return msgspec.structs.replace(host, version=host.version + 1, updated_ms=at_ms)

    async def hosts_of_pool(self, pool: str) -> list[Host]:
        rows = await self._session.rows("hosts_of_pool", pool)
        return await hosts_from_rows(rows, self._session, self._interned)

    async def _host_by_id(self, host_id: int) -> Host:
        rows = await self._session.rows("hosts_by_id", [host_id])
        return (await hosts_from_rows(rows, self._session, self._interned))[0]

    async def _hold(self, name: str, expected_version: int | None) -> int:
        """The id of a living host of that version; nobody changes it until the commit."""
        found = await self._session.rows("host_version_by_name", name)
        if not found:
            raise NotFound(f"no host {name}")
        version, host_id = found[0]
        _check_version(name, version, expected_version)
        return int(host_id)

    async def _refuse_taken_hosts(self, names: list[str]) -> None:
        taken = {row[0] for row in await self._session.rows("living_names", names)}
        seen: set[str] = set()
        for name in names:
            if name in taken or name in seen:
                raise Conflict(f"host {name} exists", code="already_exists", remedy="change it, or choose another name")
            seen.add(name)

    async def _make_dimensions(self, hosts: Sequence[Host]) -> None:
        """A custom dimension gets its slot when the first host has it."""
        wanted = {name for host in hosts for name in (*host.total, *host.allocatable)}
        if wanted <= set(self._interned.dimensions):
            return
        await read_dimensions(self._session, self._interned)
        known = self._interned.dimensions
        new = sorted(wanted - set(known))
        if len(known) + len(new) > WIDTH:
            raise InvalidRequest(
                f"there are {CUSTOM_DIMENSIONS_MAX} custom dimensions already, {new[0]!r} would be one more",
                code="too_many_dimensions",
                remedy=f"use one of {', '.join(known[len(DIMENSIONS) :])}",
            )
        slots = [(slot, name) for slot, name in enumerate(new, len(known) - len(DIMENSIONS) + 1)]
        for slot, name in slots:
            await self._session.rows("add_dimension", slot, name)
        await read_dimensions(self._session, self._interned)
        if not wanted <= set(self._interned.dimensions):
            raise RetryTransaction("somebody else has just added a custom dimension")

    def _limits(self, host: Host) -> list[int]:
        return self._interned.amounts(host.allocatable, WIDTH)


def _check_version(name: str, version: int, expected: int | None) -> None:
    if expected is not None and version != expected:
        raise VersionMismatch(f"host {name} changed since version {expected}", current_version=version)


def _new_columns(host: Host) -> tuple[object, ...]:
    spec = host.spec
    return (
        spec.address,
        spec.pool,
        spec.zone,
        host.source.value,
        host.cordoned,
        host.missing_since_ms,
        host.version,
        host.created_ms,
        host.updated_ms,
        *_documents(host),
    )


def _columns(host: Host) -> tuple[object, ...]:
    spec = host.spec
    return (
        spec.address,
        spec.pool,
        spec.zone,
        host.source.value,
        host.missing_since_ms,
        host.updated_ms,
        *_documents(host),
    )


def _documents(host: Host) -> tuple[str, str, str, str]:
    held: tuple[Mapping[str, int], ...] = (host.foreign, host.total, host.allocatable)
    foreign, total, allocatable = (json_text(dict(amounts)) for amounts in held)
    return json_text(host.spec), foreign, total, allocatable
