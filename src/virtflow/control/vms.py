"""VMs: ordering, reading, deleting."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from virtflow.control.doubt import Doubt, transaction
from virtflow.control.ids import Ids
from virtflow.control.mirror import Mirror
from virtflow.control.orders import Cause, Receipt, VmOrder
from virtflow.control.schedule import Scheduler
from virtflow.control.submission import StillUnderWay, Submission
from virtflow.control.tasks import end_tasks
from virtflow.control.waiting import Waiting, WaitingRoom
from virtflow.control.webhooks import forbidden
from virtflow.engine import strategies
from virtflow.engine.explain import explain
from virtflow.events import Forbidden, Guard
from virtflow.model.clock import Clock
from virtflow.model.errors import Conflict, FieldProblem, InvalidRequest, NotFound, VersionMismatch
from virtflow.model.event import Event, EventType
from virtflow.model.instance import Instance
from virtflow.model.names import derived_vm_name, id_from_text, id_to_text, is_name
from virtflow.model.url import read_url
from virtflow.model.views import DeletedMany, VmView
from virtflow.store.contract import InstanceFilter, Removed, RoomChange, Store

#: inside the class `list` is a verb
_Views = list[VmView]
_NO_CAUSE = Cause()
_NO_CLAIMS: set[str | bytes] = set()


class Vms:
    def __init__(
        self,
        *,
        store: Store,
        mirror: Mirror,
        scheduler: Scheduler,
        waiting: WaitingRoom,
        clock: Clock,
        ids: Ids,
        knock: Callable[[], None],
        doubt: Doubt,
        catch_up: Callable[[], Awaitable[None]],
        guard: Guard,
    ) -> None:
        self._store = store
        self._catch_up = catch_up
        self._guard = guard
        self._mirror = mirror
        self._scheduler = scheduler
        self._waiting = waiting
        self._clock = clock
        self._ids = ids
        self._knock = knock
        self._doubt = doubt
        #: names and client ids between acceptance and commit: two at once would clash in one commit
        self._in_flight: set[str | bytes] = set()

    # ── ordering ──────────────────────────────────────────────────────────────────────────────────

    async def create(
        self,
        orders: Sequence[VmOrder],
        *,
        together: bool,
        actor: str,
        cause: Cause = _NO_CAUSE,
        receipt: Receipt[_Views] | None = None,
        check_pool: bool = True,
        letter: str = "",
    ) -> _Views:
        """Accepted and durable when this returns, and placed already if that was possible in the same commit.

        `letter`: the dead letter that is sent again by this; refused when somebody was first.
        """
        await self._check(orders, check_pool=check_pool)
        self._check_callbacks(orders)
        tasks = self._tasks_of(orders, together=together)
        if cause.trace:
            for task in tasks:
                task.trace = cause.trace
        claims = self._claim(orders, tasks)
        try:
            done: asyncio.Future[_Views] = asyncio.get_running_loop().create_future()
            submission = Submission(tasks, actor=actor, cause=cause, receipt=receipt, done=done, letter=letter)
            self._scheduler.hand_in(submission)
            try:
                return await done
            except asyncio.CancelledError:
                await submission.ended()
                raise
        except StillUnderWay as unknown:
            held, claims = claims, _NO_CLAIMS  # names stay taken until it is known what became of them
            unknown.over.add_done_callback(lambda _: self._in_flight.difference_update(held))
            raise
        finally:
            self._in_flight -= claims

    async def _check(self, orders: Sequence[VmOrder], *, check_pool: bool) -> None:
        """Mistakes that waiting cannot mend are refused at the door; each shape is looked at once."""
        seen = {order.shape: number for number, order in reversed(list(enumerate(orders)))}
        for shape, number in seen.items():
            pointer = f"/items/{number}" if len(orders) > 1 else ""
            if shape.strategy and shape.strategy not in strategies.names():
                strategies.get(shape.strategy)  # raises InvalidStrategy with the known ones
            if check_pool and not await self._is_pool(shape.pool):
                known = ", ".join(repr(name) for name in sorted(self._mirror.pool_names)[:10]) or "none yet"
                problem = FieldProblem(f"{pointer}/pool", f"no pool {shape.pool!r}", f"known pools: {known}")
                raise InvalidRequest(
                    f"no pool {shape.pool!r}", code="no_such_pool", remedy=f"known pools: {known}", fields=[problem]
                )

    def _check_callbacks(self, orders: Sequence[VmOrder]) -> None:
        """Addresses that nothing may be sent to. What a name means is looked at when something is sent."""
        for number, order in enumerate(orders):
            if order.callback is not None:
                try:
                    self._guard.judge_literal(read_url(order.callback.url))
                except Forbidden as error:
                    pointer = f"items/{number}/callback_url" if len(orders) > 1 else "callback_url"
                    raise forbidden(error, field=pointer) from error

    async def _is_pool(self, name: str) -> bool:
        """Another process may have made it just now."""
        if name not in self._mirror.pool_names:
            await self._catch_up()
        return name in self._mirror.pool_names

    def _tasks_of(self, orders: Sequence[VmOrder], *, together: bool) -> list[Waiting]:
        now_ms = self._clock.now_ms()
        tasks = [self._task_of(order, now_ms) for order in orders]
        if together and len(tasks) > 1:
            _bind_together(tasks)
        return tasks

    def _task_of(self, order: VmOrder, now_ms: int) -> Waiting:
        key = self._ids.next() if order.task_id is None else id_from_text(order.task_id)
        name = order.name
        if name is None and len(key) != 16:
            name = derived_vm_name(key)  # cannot be computed back from the name, so it is stored
        return Waiting(
            key=key,
            name=name,
            shape=order.shape,
            when_unplaceable=order.when_unplaceable,
            priority=order.priority,
            accepted_ms=now_ms,
            deadline_ms=None if order.deadline_s is None else now_ms + order.deadline_s * 1000,
            callback=order.callback,
        )

    def _claim(self, orders: Sequence[VmOrder], tasks: Sequence[Waiting]) -> set[str | bytes]:
        """Names and client ids are ours until the commit ended; a second one of them is refused now."""
        claims = [
            claim
            for order, task in zip(orders, tasks, strict=True)
            for claim in (task.name, None if order.task_id is None else task.id)
            if claim is not None
        ]
        if not claims:
            return _NO_CLAIMS
        unique = set(claims)
        if len(unique) != len(claims):
            twice = next(claim for claim in unique if claims.count(claim) > 1)
            raise Conflict(f"{_shown(twice)} stands twice in this request", code="already_exists")
        clash = unique & self._in_flight
        if clash:
            raise Conflict(
                f"{_shown(next(iter(clash)))} is being created by another request",
                code="already_exists",
                remedy="choose another name, or wait for the other request",
            )
        self._in_flight |= unique
        return unique

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    async def get(self, name_or_id: str) -> VmView:
        instance = await self._find(name_or_id)
        view = (await self._views([instance]))[0]
        if instance.host_id is None:
            view = msgspec.structs.replace(view, explanation=explain(self._mirror.fleet, view.shape))
        return view

    async def list(self, where: InstanceFilter, *, after: bytes, limit: int) -> Sequence[VmView]:
        return await self._views(await self._store.instances(where, after=after, limit=limit))

    async def _views(self, instances: Sequence[Instance]) -> Sequence[VmView]:
        shapes = await self._store.shapes(sorted({instance.shape_id for instance in instances}))
        return [
            VmView(instance=instance, shape=shapes[instance.shape_id], task_id=instance.id) for instance in instances
        ]

    async def _find(self, name_or_id: str) -> Instance:
        instance = await self._store.instance_by_name(name_or_id) if is_name(name_or_id) else None
        if instance is None:
            with contextlib.suppress(InvalidRequest):
                instance = await self._store.instance(id_from_text(name_or_id))
        if instance is None:
            raise NotFound(f"no VM {name_or_id}", code="vm_not_found", remedy="virtflow get vms shows them all")
        return instance

    # ── deleting ──────────────────────────────────────────────────────────────────────────────────

    async def delete(self, name_or_id: str, *, expected_version: int | None, actor: str) -> None:
        """Gives the room back. Deleting what was deleted before is fine; what never was is an error."""
        try:
            instance = await self._find(name_or_id)
        except NotFound:
            if await self._store.was_deleted(name_or_id):
                return
            raise
        if expected_version is not None and instance.version != expected_version:
            raise VersionMismatch(
                f"VM {name_or_id} is at version {instance.version}, not {expected_version}",
                current_version=instance.version,
            )
        await self._remove([instance.id], actor=actor, receipt=None, absent=[])

    async def delete_many(
        self, names: Sequence[str], *, actor: str, receipt: Receipt[DeletedMany] | None = None
    ) -> DeletedMany:
        found, absent = [], []
        for name in dict.fromkeys(names):
            try:
                found.append((await self._find(name)).id)
            except NotFound:
                absent.append(name)
        return await self._remove(found, actor=actor, receipt=receipt, absent=absent)

    async def _remove(
        self, ids: Sequence[bytes], *, actor: str, receipt: Receipt[DeletedMany] | None, absent: Sequence[str]
    ) -> DeletedMany:
        now_ms = self._clock.now_ms()
        async with self._mirror.turns.writing():
            async with transaction(self._store, self._doubt) as tx:
                removed = await tx.remove_instances(ids, at_ms=now_ms)
                placed = [row for row in removed if row.instance.host_id is not None]
                await tx.give_room(_room_given(placed))
                waiting = [row.instance.id for row in removed if row.instance.host_id is None]
                ended, events = await end_tasks(tx, waiting, now_ms=now_ms, actor=actor, why="VM deleted")
                events += [_deleted_event(row, now_ms, actor) for row in removed]
                result = DeletedMany(deleted=len(removed), absent=[*absent])
                if receipt is not None:
                    await tx.remember_answers([receipt.answer(result, now_ms)])
                if events:
                    await tx.append_events(events)
            self._waiting.remove(ended)
            for row in placed:
                self._mirror.give(row.instance.host_id or 0, row.shape)
        self._knock()
        return result


def _bind_together(tasks: Sequence[Waiting]) -> None:
    """Members of an all-or-nothing request share one fate, so they share what decides it."""
    deadlines = [task.deadline_ms for task in tasks if task.deadline_ms is not None]
    priority = max(task.priority for task in tasks)
    when_unplaceable = min(task.when_unplaceable for task in tasks)
    for task in tasks:
        task.gang = tasks[0].id
        task.priority = priority
        task.when_unplaceable = when_unplaceable
        task.deadline_ms = min(deadlines) if deadlines else None


def _room_given(placed: Sequence[Removed]) -> Sequence[RoomChange]:
    amounts: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    counts: dict[int, int] = defaultdict(int)
    for row in placed:
        host_id = row.instance.host_id or 0
        counts[host_id] += 1
        for name, amount in row.shape.wants:
            amounts[host_id][name] += amount
    return [RoomChange(host_id, dict(amounts[host_id]), counts[host_id]) for host_id in sorted(amounts)]


def _deleted_event(row: Removed, now_ms: int, actor: str) -> Event:
    instance = row.instance
    placed = instance.host_id is not None
    return Event(
        type=EventType.VM_DELETED,
        kind="vm",
        id=id_to_text(instance.id),
        version=instance.version + 1,
        at_ms=now_ms,
        vm=instance.name,
        host=instance.host or "",
        pool=row.shape.pool,
        delta={name: -amount for name, amount in row.shape.wants} if placed else None,
        fence=instance.fence,
        actor=actor,
    )


def _shown(claim: str | bytes) -> str:
    return f"task {id_to_text(claim)}" if isinstance(claim, bytes) else f"VM {claim}"
