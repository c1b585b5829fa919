"""Rows in one line, and the transactions that most tests begin with."""

import contextlib
from collections.abc import AsyncIterator, Sequence

from virtflow.model.event import Event, EventType
from virtflow.model.host import Host
from virtflow.model.instance import Instance
from virtflow.model.shape import Shape
from virtflow.model.task import Task, TaskState
from virtflow.store.contract import Store, Transaction
from virtflow.testing.builders import host, shape

NOW_MS = 1_700_000_000_000


def key(number: int) -> bytes:
    """A time-ordered id, as tasks usually have."""
    return NOW_MS.to_bytes(6) + number.to_bytes(10)


def instance(number: int, *, shape_id: int = 1, **more: object) -> Instance:
    return Instance(**{"id": key(number), "shape_id": shape_id, "created_ms": NOW_MS, **more})  # type: ignore[arg-type]


def task(number: int, *, state: TaskState = TaskState.COMPLETED, shape_id: int = 1, **more: object) -> Task:
    given = {
        "id": key(number),
        "instance_id": key(number),
        "state": state,
        "shape_id": shape_id,
        "accepted_ms": NOW_MS,
        "ended_ms": NOW_MS + 4 if state > TaskState.PROCESSING else None,
        **more,
    }
    return Task(**given)  # type: ignore[arg-type]


def event(number: int = 0, kind: EventType = EventType.TASK_COMPLETED, **more: object) -> Event:
    return Event(**{"type": kind, "kind": kind.value.partition(".")[0], "id": f"{number}", "at_ms": NOW_MS, **more})  # type: ignore[arg-type]


async def add_hosts(store: Store, *hosts: Host | str) -> list[int]:
    async with store.transaction() as tx:
        return await tx.add_hosts([host(one) if isinstance(one, str) else one for one in hosts])


async def intern(store: Store, wanted: Shape | None = None) -> int:
    async with store.transaction() as tx:
        return (await tx.intern_shapes([wanted or shape()]))[0]


async def add_instances(store: Store, instances: Sequence[Instance]) -> None:
    async with store.transaction() as tx:
        await tx.add_instances(instances)


async def add_tasks(store: Store, tasks: Sequence[Task]) -> None:
    async with store.transaction() as tx:
        await tx.add_tasks(tasks)


async def host_named(store: Store, name: str) -> Host:
    found = await store.host(name)
    assert found is not None
    return found


class Undone(Exception):
    """A transaction failed on purpose."""


@contextlib.asynccontextmanager
async def undone(store: Store, error: BaseException | None = None) -> AsyncIterator[Transaction]:
    """A transaction that fails at its end."""
    wanted = error or Undone()
    try:
        async with store.transaction() as tx:
            yield tx
            raise wanted
    except BaseException as caught:
        if caught is not wanted:
            raise
