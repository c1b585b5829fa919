"""Processes, as rows: who is there, and when each was last seen."""

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
        seen_ms=row[6],
        silent_ms=row[7],
    )


class ProcessReads:
    _far: Reader

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
        )

    async def remove_process(self, process_id: str) -> None:
        await self._session.rows("remove_process", process_id)

    async def remove_silent_processes(self, *, silent_ms: int) -> None:
        await self._session.rows("remove_silent_processes", silent_ms)
