"""Processes, as rows: who is there, and when each was last seen."""

import msgspec

from virtflow.model.health import Unwell
from virtflow.model.process import Process
from virtflow.store.session import Reader, Row, Session


def process_from_row(row: Row) -> Process:
    return Process(
        id=row[0],
        node=row[1],
        roles=tuple(filter(None, row[2].split(","))),
        address=row[3],
        version=row[4],
        started_ms=row[5],
        unwell=_read_unwell(row[6]) if row[6] else (),
        seen_ms=row[7],
        silent_ms=row[8],
    )


def _read_unwell(text: str) -> tuple[Unwell, ...]:
    return msgspec.json.decode(text, type=tuple[Unwell, ...])


def _write_unwell(unwell: tuple[Unwell, ...]) -> str:
    return msgspec.json.encode(unwell).decode() if unwell else ""


class ProcessReads:
    _far: Reader

    async def now_ms(self) -> int:
        return int((await self._far.rows("now"))[0][0])

    async def processes(self) -> list[Process]:
        return [process_from_row(row) for row in await self._far.rows("processes")]


class ProcessWrites:
    _session: Session

    async def put_process(self, process: Process) -> None:
        await self._session.rows(
            "put_process",
            process.id,
            process.node,
            ",".join(process.roles),
            process.address,
            process.version,
            process.started_ms,
            _write_unwell(process.unwell),
        )

    async def remove_process(self, process_id: str) -> None:
        await self._session.rows("remove_process", process_id)

    async def remove_silent_processes(self, *, silent_ms: int) -> None:
        await self._session.rows("remove_silent_processes", silent_ms)
