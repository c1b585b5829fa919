"""Dead letters: what failed for good can be looked at, sent again, or thrown away."""

from collections.abc import Callable, Sequence

import structlog

from virtflow.control.ids import Ids
from virtflow.control.orders import Receipt, VmOrder
from virtflow.control.vms import Vms
from virtflow.model.clock import Clock
from virtflow.model.dead import DeadKind, DeadLetter
from virtflow.model.errors import Conflict, NotFound
from virtflow.model.event import Event, EventType
from virtflow.model.knock import Malformed, read_knock
from virtflow.model.limits import DEAD_MESSAGES_MAX
from virtflow.model.names import id_from_text, id_to_text
from virtflow.model.task import Task
from virtflow.model.views import VmView
from virtflow.model.webhook import Callback
from virtflow.queue import DeadMessage
from virtflow.store.contract import Store

log = structlog.get_logger(__name__)

#: of a message so much is kept
BODY_BYTES_MAX = 2**16


class Dead:
    """`call`: these tasks wait for whoever leads."""

    def __init__(
        self,
        *,
        store: Store,
        vms: Vms,
        clock: Clock,
        ids: Ids,
        tell: Callable[[], None],
        call: Callable[[Sequence[bytes]], None],
    ) -> None:
        self._store = store
        self._vms = vms
        self._clock = clock
        self._ids = ids
        self._tell = tell
        self._call = call
        #: letters being sent again: two at once would clash in one commit
        self._in_flight: set[str] = set()

    # ── looking ───────────────────────────────────────────────────────────────────────────────────

    async def get(self, letter_id: str) -> DeadLetter:
        letter = await self._store.dead_letter(letter_id)
        if letter is None:
            raise NotFound(
                f"no dead letter {letter_id}", code="dead_letter_not_found", remedy="virtflow dead list shows them all"
            )
        return letter

    async def list(self, *, with_requeued: bool, kind: DeadKind | None, after: int, limit: int) -> Sequence[DeadLetter]:
        return await self._store.dead(with_requeued=with_requeued, kind=kind, after=after, limit=limit)

    async def counts(self) -> dict[DeadKind, int]:
        return await self._store.dead_counts()

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    async def set_aside(self, message: DeadMessage) -> None:
        """A message that cannot be obeyed. Of too many only the broker keeps the rest."""
        if (await self._store.dead_counts())[DeadKind.MESSAGE] >= DEAD_MESSAGES_MAX:
            log.warning("message.not_kept", code=message.code, because=f"{DEAD_MESSAGES_MAX} are")
            return
        letter = DeadLetter(
            id=id_to_text(self._ids.next()),
            kind=DeadKind.MESSAGE,
            code=message.code,
            reason=message.reason,
            body=message.body[:BODY_BYTES_MAX],
            at_ms=self._clock.now_ms(),
        )
        async with self._store.transaction() as tx:
            await tx.add_dead([letter])
            await tx.append_events([_event(EventType.DEAD_ADDED, letter, at_ms=letter.at_ms)])
        self._tell()

    async def delete(self, letter_id: str, *, actor: str) -> None:
        letter = await self.get(letter_id)
        async with self._store.transaction() as tx:
            if not await tx.remove_dead(letter.id):
                return  # somebody was first
            await tx.append_events([_event(EventType.DEAD_DELETED, letter, at_ms=self._clock.now_ms(), actor=actor)])
        self._tell()

    async def requeue(self, letter_id: str, *, actor: str, receipt: Receipt[DeadLetter] | None = None) -> DeadLetter:
        """Sends it again, once: failed tasks as new ones for VMs of the same names; a message's tasks as a knock."""
        letter = await self.get(letter_id)
        if not letter.is_open or letter.id in self._in_flight:
            raise already_requeued(letter)
        self._in_flight.add(letter.id)
        try:
            if letter.kind is DeadKind.MESSAGE:
                return await self._requeue_message(letter, actor=actor, receipt=receipt)
            return await self._requeue_tasks(letter, actor=actor, receipt=receipt)
        finally:
            self._in_flight.discard(letter.id)

    async def _requeue_tasks(
        self, letter: DeadLetter, *, actor: str, receipt: Receipt[DeadLetter] | None
    ) -> DeadLetter:
        """New tasks, accepted in the commit that marks the letter."""
        views = await self._vms.create(
            [await self._order_of(task, letter.failed.callback_of(task)) for task in letter.tasks],
            together=len(letter.tasks) > 1,
            actor=actor,
            receipt=None if receipt is None else _receipt_for_vms(letter, receipt),
            check_pool=False,  # of a pool that is gone it says why it waits, as the first time
            letter=letter.id,
        )
        return _sent(letter, views)

    async def _order_of(self, task_id: str, callback: Callback | None) -> VmOrder:
        task = await self._store.task(id_from_text(task_id))
        if task is None:
            raise NotFound(f"no task {task_id} any more", code="task_not_found", remedy="ask for the VM anew")
        shape = (await self._store.shapes([task.shape_id]))[task.shape_id]
        return VmOrder(
            shape=shape,
            name=task.given_name,
            when_unplaceable=task.when_unplaceable,
            priority=task.priority,
            deadline_s=_deadline_s(task),
            callback=callback,
        )

    async def _requeue_message(
        self, letter: DeadLetter, *, actor: str, receipt: Receipt[DeadLetter] | None
    ) -> DeadLetter:
        try:
            ids = read_knock(letter.body)
        except Malformed as error:
            raise Conflict(
                f"the message cannot be read, now as before: {error}",
                code="cannot_requeue",
                remedy="the tasks it may have meant are found without it; delete the letter",
            ) from error
        now_ms = self._clock.now_ms()
        sent = letter.sent(at_ms=now_ms, now_as=None)
        async with self._store.transaction() as tx:
            if not await tx.requeue_dead(letter.id, now_as=None, at_ms=now_ms):
                raise already_requeued(letter)
            if receipt is not None:
                await tx.remember_answers([receipt.answer(sent, now_ms)])
            await tx.append_events([_event(EventType.DEAD_REQUEUED, letter, at_ms=now_ms, actor=actor)])
        self._call(ids)
        self._tell()
        return sent


def already_requeued(letter: DeadLetter) -> Conflict:
    task = f" as task {letter.requeued_as}" if letter.requeued_as else ""
    return Conflict(
        f"{letter.id} was sent again already{task}", code="already_requeued", remedy="see what became of that"
    )


def _receipt_for_vms(letter: DeadLetter, receipt: Receipt[DeadLetter]) -> Receipt[list[VmView]]:
    return Receipt(
        principal=receipt.principal,
        key=receipt.key,
        request_hash=receipt.request_hash,
        render=lambda views: receipt.render(_sent(letter, views)),
    )


def _sent(letter: DeadLetter, views: Sequence[VmView]) -> DeadLetter:
    """As the commit has written it."""
    first = views[0]
    return letter.sent(at_ms=first.instance.created_ms, now_as=id_to_text(first.task_id))


def _deadline_s(task: Task) -> int | None:
    """As long as the first time."""
    return None if task.deadline_ms is None else max(1, (task.deadline_ms - task.accepted_ms) // 1000)


def _event(kind: EventType, letter: DeadLetter, *, at_ms: int, actor: str = "") -> Event:
    added = kind is EventType.DEAD_ADDED
    return Event(
        type=kind,
        kind="dead",
        id=letter.id,
        at_ms=at_ms,
        actor=actor,
        code=letter.code if added else "",
        text=letter.reason if added else "",
    )
