"""The scheduler loop: gather what waits, decide, commit.

Requests that arrive together are decided together and share one commit. While one round is being written, the next
gathers and is decided; what a round took is in the mirror at once and comes out again if its commit fails.

A process that does not lead runs the same loop, and its rounds only accept: they write down what arrived, for the
leader to find.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from itertools import islice
from typing import Any, Protocol

import structlog

from virtflow.control.commit import Committer, Outcome, Round
from virtflow.control.follow import Follower
from virtflow.control.inbox import Inbox
from virtflow.control.journal import Steps
from virtflow.control.mirror import Mirror
from virtflow.control.submission import Submission
from virtflow.control.waiting import Waiting, WaitingRoom
from virtflow.election import Term
from virtflow.engine.decide import decide
from virtflow.engine.explain import explain
from virtflow.model.clock import Clock
from virtflow.model.errors import Fenced, Unavailable, VirtflowError
from virtflow.model.explanation import Explanation
from virtflow.model.limits import BATCH_LIMIT
from virtflow.model.plan import Placement, Plan, Request
from virtflow.model.shape import Shape
from virtflow.model.task import Task, WhenUnplaceable
from virtflow.store.contract import Store

log = structlog.get_logger(__name__)

#: rounds decided and not yet committed: one is being written, one waits for it
ROUNDS_IN_FLIGHT_MAX = 2
#: so many decisions are made before other work gets its turn
DECISIONS_AT_ONCE = 2_000
#: callers wait as long as this while the database is away, then they are told so
RESTART_WAIT_S_MAX = 0.5
#: a task whose move could not be written is tried again after this
AGAIN_AFTER_MS = 1_000
#: who waits is put off so often before he is told that it does not work now
PATIENCE = 3
STOP_WAIT_S_MAX = 8.0
#: so often it is looked who waits too long for an answer
OVERDUE_EVERY_S = 0.2
POISONED = Explanation(
    code="poisoned",
    kind="request",
    text="this request makes the scheduler fail, which is a defect of virtflow; it was set aside so that others go on",
    hosts_considered=0,
)


class Observer(Protocol):
    """Who wants to know how the rounds go."""

    def observe_round(self, seconds: float) -> None: ...
    def observe_decisions(self, outcome: str, strategies: Iterable[str]) -> None: ...
    def observe_placed(self, waited_s: Iterable[float]) -> None: ...


class _Watch:
    """Somebody waits until these tasks were looked at."""

    __slots__ = ("done", "ids")

    def __init__(self, ids: set[bytes]) -> None:
        self.ids = ids
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Scheduler:
    """One per process; the fence in the database judges between processes."""

    def __init__(
        self,
        *,
        store: Store,
        mirror: Mirror,
        waiting: WaitingRoom,
        follower: Follower,
        committer: Committer,
        clock: Clock,
        observer: Observer,
        settled: Callable[[Round, Outcome, Steps], None],
        tell: Callable[[], None],
        call: Callable[[Sequence[bytes]], None],
        bury: Callable[[Sequence[bytes]], None],
        tick_s: float,
        retries_max: int,
        retry_wait_s: float,
        accept_queue_max: int,
    ) -> None:
        """`settled`: a round became true. `tell`: events were committed. `call`: these tasks wait for whoever leads.
        `bury`: these failed for good.
        """
        self._store = store
        self._mirror = mirror
        self._waiting = waiting
        self._follower = follower
        self._committer = committer
        self._clock = clock
        self._observer = observer
        self._settled = settled
        self._tell = tell
        self._call = call
        self._bury = bury
        self._tick_s = tick_s
        self._retries_max = retries_max
        self._retry_wait_s = retry_wait_s
        self._inbox = Inbox(limit=accept_queue_max)
        #: set while this process leads
        self._term: Term | None = None
        self.leading = asyncio.Event()
        #: what others accept is taken up here: while leading, and from just before all that waits was read
        self._takes_up = False
        self._deposed = asyncio.Event()
        #: recorded tasks that nobody has tried to place yet
        self._fresh: dict[bytes, Waiting] = {}
        self._watches: list[_Watch] = []
        #: some request makes the engine fail: until it is found, each is decided by itself
        self._is_careful = False
        self._slots = asyncio.Semaphore(ROUNDS_IN_FLIGHT_MAX)
        #: who wants all slots: two who had half of them each would wait for ever
        self._stillness = asyncio.Lock()
        self._rounds: set[asyncio.Task[None]] = set()
        #: being decided or written; not to be chosen by the next round
        self._busy: set[bytes] = set()
        self._cursors: dict[str, str] = {}
        self._must_reload = False
        self._stopping = False
        #: of the loop, one after the other
        self._failures = 0
        #: "ok", or what is wrong: for health
        self.state = "starting"

    # ── what others call ──────────────────────────────────────────────────────────────────────────

    def knock(self) -> None:
        """Something changed that may let a task through. Cheap, never blocks, may be called too often."""
        self._inbox.knocked.set()

    def doubt(self) -> None:
        """Something was written here, or was not: the mirror is read anew before the next round."""
        self._must_reload = True
        self.knock()

    @property
    def fence(self) -> int:
        """The newest that this process took."""
        return self._committer.fence

    @property
    def is_leading(self) -> bool:
        return self._term is not None and self._term.is_valid()

    def follow(self) -> None:
        """Somebody else leads, or will: this process accepts for him, and is ready for that."""
        if self.state == "starting":
            self.state = "following"

    def hand_in(self, submission: Submission) -> None:
        """New tasks, to be accepted together; and where this process leads, decided in the same commit."""
        if self._stopping:
            raise Unavailable("this process is stopping", remedy="send it again in a moment")
        self._inbox.put(submission, now_s=self._clock.monotonic_s())

    async def hear_of(self, ids: Sequence[bytes]) -> None:
        """Tasks that another process accepted, as the log tells."""
        if self._takes_up:
            await self._take_up_by_id(ids)
            self.knock()

    async def look_at(self, ids: Sequence[bytes]) -> None:
        """Tasks that another process accepted. Returns when each has its host or is known to wait."""
        if not self.is_leading:
            raise Unavailable("this process does not lead", remedy="tell the one that does")
        await self._take_up_by_id(ids)
        watch = _Watch({key for key in ids if key in self._waiting})
        if self._has_looked_at(watch):
            return
        self._watches.append(watch)
        self.knock()
        await watch.done

    @contextlib.asynccontextmanager
    async def hold_still(self) -> AsyncIterator[None]:
        """No round is decided or written inside: for reloading the mirror and for taking things apart."""
        async with self._stillness:
            held = 0
            try:
                for _ in range(ROUNDS_IN_FLIGHT_MAX):
                    await self._slots.acquire()
                    held += 1
                yield
            finally:
                for _ in range(held):
                    self._slots.release()

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────

    async def lead(self, term: Term) -> None:
        """Decides until the term ends, or until a newer leader is met in the database."""
        self._deposed.clear()
        try:
            async with self.hold_still():
                if not term.is_valid():  # it ended while rounds did, and another's fence may be good
                    return
                fence = await self._committer.take_fence()
                await self._know_everything()
                self._term = term
            self.state = "ok"
            self.leading.set()
            log.info("leader.began", fence=fence, term=term.number, waiting=len(self._waiting))
            self.knock()
            await _first_of(term.ended(), self._deposed.wait())
        finally:
            self._stand_back()

    async def _know_everything(self) -> None:
        """After the fence: whoever led before can commit nothing more."""
        must_load = self._must_reload or not self._follower.is_warm
        self._must_reload = False  # before: a doubt that comes meanwhile stays
        try:
            await (self._follower.load() if must_load else self._follower.catch_up())
        except BaseException:
            self._must_reload = self._must_reload or must_load
            raise
        self._waiting.clear()
        self._fresh.clear()
        self._takes_up = True
        async for tasks in self._store.open_tasks():
            await self._take_up(tasks)
        self._cursors = await self._committer.load_cursors()

    def _stand_back(self) -> None:
        self._term, self._takes_up = None, False
        self.leading.clear()
        self.state = "following"
        self._fresh.clear()
        watches, self._watches = self._watches, []
        for watch in watches:
            if not watch.done.done():
                watch.done.set_exception(Unavailable("this process leads no more", remedy="tell the one that does"))
        self.knock()

    async def _take_up_by_id(self, ids: Sequence[bytes]) -> None:
        unknown = [key for key in ids if key not in self._waiting]
        if unknown:
            await self._take_up(await self._store.waiting_tasks(unknown))

    async def _take_up(self, tasks: Sequence[Task]) -> None:
        """Recorded tasks become known here; those never tried are tried in the next round."""
        shapes = await self._store.shapes(sorted({task.shape_id for task in tasks}))
        for task in tasks:
            if task.id in self._waiting:
                continue
            waiting = Waiting.from_task(task, shapes[task.shape_id], name=task.given_name)
            self._waiting.add(waiting)
            if task.attempt == 0:
                self._fresh[task.id] = waiting

    async def run(self) -> None:
        """Until stopped. A failure restarts the loop with growing waits and shows in health."""
        while not self._stopping or self._inbox:
            try:
                await self._run_rounds()
                return
            except Exception as error:
                self._failures += 1
                self.state = f"restarting after {type(error).__name__}: {error}"
                if self._failures == 1:  # one line for each change of state, not for each try
                    log.exception("scheduler.failed")
                self._must_reload = True
                if isinstance(error, VirtflowError) or self._failures >= PATIENCE:
                    self._inbox.refuse(_away(error))
                await asyncio.sleep(min(RESTART_WAIT_S_MAX, 0.05 * 2 ** min(self._failures, 10)))

    async def answer_in_time(self) -> None:
        """Until cancelled: whoever waited too long is told so."""
        while True:
            await asyncio.sleep(OVERDUE_EVERY_S)
            self._inbox.refuse_overdue(now_s=self._clock.monotonic_s())

    async def stop(self) -> None:
        """Takes nothing new, writes what was handed in, ends."""
        self._stopping = True
        self.knock()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_WAIT_S_MAX):
                while self._rounds or self._inbox:
                    await (asyncio.wait(self._rounds) if self._rounds else asyncio.sleep(0.01))
        self._inbox.refuse(Unavailable("the service stopped", remedy="send it again in a moment"))

    async def _run_rounds(self) -> None:
        while True:
            await self._wait_for_work()
            if self._stopping and not self._inbox:
                return
            if self._must_reload:
                await self._reload()
            await self._slots.acquire()
            try:
                decided = await self._next_round() if self.is_leading else self._next_acceptance()
            except BaseException:
                self._slots.release()
                raise
            self._is_well()  # not before: one that fails at each round would be well in between
            if decided is None:
                self._slots.release()
                continue
            writing = asyncio.create_task(self._write(decided))
            self._rounds.add(writing)
            writing.add_done_callback(self._rounds.discard)

    def _is_well(self) -> None:
        if self._failures:
            log.info("scheduler.recovered")
        self._failures = 0
        self.state = "ok" if self.is_leading else "following"

    async def _wait_for_work(self) -> None:
        if self._inbox or (self._fresh and self.is_leading):
            await asyncio.sleep(0)
            return
        if self._stopping:
            return
        alarm_ms = self._waiting.next_alarm_ms() if self.is_leading else None
        wait_s = self._tick_s
        if alarm_ms is not None:
            wait_s = min(wait_s, max(0.0, (alarm_ms - self._clock.now_ms()) / 1000))
        try:
            async with asyncio.timeout(wait_s):
                await self._inbox.knocked.wait()
        except TimeoutError:
            pass  # the clock knocked
        self._inbox.knocked.clear()

    # ── one round ─────────────────────────────────────────────────────────────────────────────────

    async def _next_round(self) -> Round | None:
        now_ms, began_s = self._clock.now_ms(), self._clock.monotonic_s()
        submissions = self._inbox.take()
        fresh = self._take_fresh()
        ringing = [task for task in self._waiting.ringing(now_ms) if task.id not in self._busy]
        due = {task.id for task in ringing} | fresh.keys()
        old = {task.id: task for task in self._waiting.hopeful(self._mirror.opening) if task.id not in self._busy}
        old.update((task.id, task) for task in ringing)
        old.update(fresh)
        if not submissions and not old:
            return None
        decided = Round(submissions=submissions, now_ms=now_ms, opening=self._mirror.opening)
        try:
            await self._decide(decided, [*old.values(), *(task for s in submissions for task in s.tasks)], due)
        except BaseException:
            self._undo(decided.placed)
            self._inbox.put_back(submissions)
            self._fresh = fresh | self._fresh
            for task in ringing:
                self._waiting.set_alarm(task)
            raise
        if not submissions and not decided.placed and not decided.retried and not decided.failed:
            self._answer_watches()
            return None
        self._busy.update(decided.touched())
        decided.began_s, decided.decided_s = began_s, self._clock.monotonic_s()
        return decided

    def _next_acceptance(self) -> Round | None:
        """Somebody else leads: what came in is written down for him."""
        submissions = self._inbox.take()
        if not submissions:
            return None
        waiting = [(task, 0) for submission in submissions for task in submission.tasks]
        now_s = self._clock.monotonic_s()
        return Round(
            submissions=submissions,
            now_ms=self._clock.now_ms(),
            opening=self._mirror.opening,
            queued=waiting,
            began_s=now_s,
            decided_s=now_s,
            is_acceptance=True,
        )

    def _take_fresh(self) -> dict[bytes, Waiting]:
        """A round's worth, never a part of a gang: who shares its fate came in the same step."""
        taken: dict[bytes, Waiting] = {}
        gangs: set[bytes] = set()
        for key, task in islice(self._fresh.items(), BATCH_LIMIT):
            taken[key] = task
            if task.gang is not None:
                gangs.add(task.gang)
        if gangs:
            taken.update((key, task) for key, task in self._fresh.items() if task.gang in gangs)
        for key in taken:
            del self._fresh[key]
        return {key: task for key, task in taken.items() if key in self._waiting and key not in self._busy}

    async def _decide(self, decided: Round, tasks: list[Waiting], due: set[bytes]) -> None:
        """Places what fits; for the rest decides between waiting, another try and the end."""
        if any(task.priority for task in tasks):
            tasks.sort(key=lambda task: task.order)
            tasks = _gangs_together(tasks)
        reasons: dict[Shape, Explanation] = {}
        for chunk in _chunks(tasks, 1 if self._is_careful else DECISIONS_AT_ONCE):
            plan = self._plan(decided, chunk)
            if plan is None:
                continue
            if plan.cursors:
                self._cursors.update(plan.cursors)
                decided.cursors.update(plan.cursors)
            for task, outcome in zip(chunk, plan.outcomes, strict=True):
                if isinstance(outcome, Placement):
                    decided.placed.append((task, outcome))
                else:
                    self._refuse(decided, task, due=due, reasons=reasons)
            if len(tasks) > DECISIONS_AT_ONCE:
                await asyncio.sleep(0)

    def _plan(self, decided: Round, tasks: Sequence[Waiting]) -> Plan | None:
        """None: the engine fails over this very request, which ends here so that the others need not."""
        try:
            return decide(
                self._mirror.fleet,
                [Request(task.id, task.shape, task.gang) for task in tasks],
                cursors=self._cursors,
            )
        except MemoryError:
            self._must_reload = True
            raise  # no fault of the request: it may be decided when others have gone
        except Exception:
            self._must_reload = True  # what it took before it failed, nobody knows
            if not self._is_careful:
                self._is_careful = True
                raise
            log.exception("task.poisoned", tasks=len(tasks), first=tasks[0].id.hex())
            decided.failed += [(task, "poisoned", POISONED) for task in tasks]
            return None

    def _refuse(self, decided: Round, task: Waiting, *, due: set[bytes], reasons: dict[Shape, Explanation]) -> None:
        now_ms = decided.now_ms
        self._waiting.refused(task, opening=decided.opening)
        late = task.deadline_ms is not None and now_ms >= task.deadline_ms
        last_try = task.when_unplaceable is WhenUnplaceable.FAIL and task.attempt >= self._retries_max
        turn = not task.recorded or (task.id in due and now_ms >= task.next_try_ms)
        if late or (last_try and turn):
            if task.shape not in reasons:
                reasons[task.shape] = explain(self._mirror.fleet, task.shape)
            decided.failed.append((task, "deadline_exceeded" if late else "", reasons[task.shape]))
        elif not task.recorded:
            decided.queued.append((task, self._next_try_ms(task, now_ms)))
        elif turn and task.when_unplaceable is WhenUnplaceable.FAIL:
            decided.retried.append((task, self._next_try_ms(task, now_ms)))
        elif task.id in due:
            self._waiting.set_alarm(task)

    def _next_try_ms(self, task: Waiting, now_ms: int) -> int:
        """V's waits: 3 s times the tries so far, and up to a second of jitter, drawn from the id.

        Who shares one fate shares the moment, too: a part of a gang must never be tried alone.
        """
        if task.when_unplaceable is WhenUnplaceable.WAIT:
            return 0
        return now_ms + int(self._retry_wait_s * 1000 * task.attempt) + (task.gang or task.id)[-1] * 1000 // 256

    # ── writing it down ───────────────────────────────────────────────────────────────────────────

    async def _write(self, decided: Round) -> None:
        started_s = self._clock.monotonic_s()
        chosen = decided.touched()  # before: what the database refuses is taken out
        try:
            outcome = await self._committer.commit(decided, self._mirror)
            committed_s = self._clock.monotonic_s()
            self._settle(decided, outcome)
            told_s = self._clock.monotonic_s()
            self._settled(decided, outcome, Steps(decided.began_s, decided.decided_s, committed_s, told_s))
        except Fenced:
            # a newer leader decides; what was handed in here is accepted for him
            self._undo(decided.placed)
            self._inbox.put_back(decided.submissions)
            if not self._deposed.is_set():
                log.warning("leader.fenced")
            self._deposed.set()
        except VirtflowError as error:
            if not self._must_reload:  # the first of a row, not each
                log.warning("round.not_written", error=error.detail, tasks=len(decided.placed))
            self._give_up(decided, error)
        except Exception as error:
            log.exception("round.failed")
            self._give_up(decided, error)
        finally:
            self._busy.difference_update(chosen)
            self._answer_watches()
            self._slots.release()
            self._observer.observe_round(self._clock.monotonic_s() - started_s)

    def _give_up(self, decided: Round, error: Exception) -> None:
        """Nothing of it is true: the room goes back, the callers are told, recorded tasks are tried again."""
        self._undo(decided.placed)
        self._must_reload = True
        self._fail(decided.submissions, error)
        again_ms = self._clock.now_ms() + AGAIN_AFTER_MS
        for key in decided.touched():
            task = self._waiting.get(key)
            if task is not None:
                self._waiting.set_alarm(task, at_ms=again_ms)
        self.knock()

    def _settle(self, decided: Round, outcome: Outcome) -> None:
        """The commit is durable: memory follows, then those who wait for an answer."""
        self._undo(outcome.taken_back)
        if decided.is_acceptance:
            self._call([task.id for task in outcome.queued])
            outcome.queued = []
        if decided.failed:
            self._bury([task.id for task, _, _ in decided.failed])
        self._waiting.remove(outcome.over)
        for task in outcome.queued:
            self._waiting.add(task, tried_at=-1 if task.id in outcome.again else decided.opening)
        for task in outcome.retried:
            self._waiting.set_alarm(task)
        for key in outcome.again:
            held_back = self._waiting.get(key)
            if held_back is not None:  # its alarm has rung for this round
                self._waiting.set_alarm(held_back)
        if outcome.queued or outcome.retried:
            self.knock()  # the loop may sleep beyond these alarms
        for submission in decided.submissions:
            submission.settle()
        self._is_careful = False
        self._tell()
        self._observe(decided)
        if outcome.again:  # the database knew better than the mirror
            self._must_reload = True
            self.knock()

    def _observe(self, decided: Round) -> None:
        placed = [task for task, _ in decided.placed]
        self._observer.observe_placed((decided.now_ms - task.accepted_ms) / 1000 for task in placed)
        self._observer.observe_decisions("placed", (task.shape.strategy for task in placed))
        self._observer.observe_decisions("queued", (task.shape.strategy for task, _ in decided.queued))
        self._observer.observe_decisions("retried", (task.shape.strategy for task, _ in decided.retried))
        self._observer.observe_decisions("failed", (task.shape.strategy for task, _, _ in decided.failed))

    def _undo(self, placed: Iterable[tuple[Waiting, Placement]]) -> None:
        for task, placement in placed:
            self._mirror.give(placement.host_id, task.shape)

    def _fail(self, submissions: Iterable[Submission], error: Exception) -> None:
        for submission in submissions:
            submission.fail(error)

    def _answer_watches(self) -> None:
        if not self._watches:
            return
        done = [watch for watch in self._watches if self._has_looked_at(watch)]
        self._watches = [watch for watch in self._watches if watch not in done]
        for watch in done:
            if not watch.done.done():
                watch.done.set_result(None)

    def _has_looked_at(self, watch: _Watch) -> bool:
        watch.ids = {
            key
            for key in watch.ids
            if key in self._fresh or key in self._busy or (key in self._waiting and not self._waiting.was_refused(key))
        }
        return not watch.ids

    async def _reload(self) -> None:
        """After a commit that failed or cannot be judged: the database is asked anew."""
        async with self.hold_still():
            self._must_reload = False  # before: a doubt that comes meanwhile stays; if this fails, the loop says so
            await self._follower.load()
            if self.is_leading:
                async for tasks in self._store.open_tasks():
                    await self._take_up(tasks)


def _away(error: Exception) -> Exception:
    if isinstance(error, VirtflowError):
        return error
    return Unavailable("the scheduler does not work now", remedy="send it again in a moment")


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _gangs_together(tasks: list[Waiting]) -> list[Waiting]:
    """Members of a gang stand side by side, at the place of its first."""
    ordered: dict[bytes, list[Waiting]] = {}
    for task in tasks:
        ordered.setdefault(task.gang or task.id, []).append(task)
    return [task for group in ordered.values() for task in group]


def _chunks(tasks: Sequence[Waiting], size: int) -> Iterable[Sequence[Waiting]]:
    """Pieces of about `size`, never cutting a gang."""
    start = 0
    while start < len(tasks):
        end = min(start + size, len(tasks))
        while end < len(tasks) and tasks[end].gang is not None and tasks[end].gang == tasks[end - 1].gang:
            end += 1
        yield tasks[start:end]
        start = end
