"""The scheduler loop: gather what waits, decide, commit.

Requests that arrive together are decided together and share one commit. While one round is being written, the next
gathers and is decided; what a round took is in the mirror at once and comes out again if its commit fails.
"""

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Protocol

import structlog

from virtflow.control.commit import Committer, Outcome, Round
from virtflow.control.mirror import Mirror
from virtflow.control.submission import Submission
from virtflow.control.waiting import Waiting, WaitingRoom
from virtflow.engine.decide import decide
from virtflow.engine.explain import explain
from virtflow.model.clock import Clock
from virtflow.model.errors import Busy, Fenced, Unavailable, VirtflowError
from virtflow.model.explanation import Explanation
from virtflow.model.limits import BATCH_LIMIT
from virtflow.model.plan import Placement, Request
from virtflow.model.shape import Shape
from virtflow.model.task import WhenUnplaceable
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
STOP_WAIT_S_MAX = 8.0


class Observer(Protocol):
    """Who wants to know how the rounds go."""

    def observe_round(self, seconds: float) -> None: ...
    def observe_decisions(self, outcome: str, strategies: Iterable[str]) -> None: ...
    def observe_placed(self, waited_s: Iterable[float]) -> None: ...


class Scheduler:
    """The leader's loop. One per process; the fence in the database judges between processes."""

    def __init__(
        self,
        *,
        store: Store,
        mirror: Mirror,
        waiting: WaitingRoom,
        committer: Committer,
        clock: Clock,
        observer: Observer,
        tell: Callable[[], None],
        tick_s: float,
        retries_max: int,
        retry_wait_s: float,
        accept_queue_max: int,
    ) -> None:
        self._store = store
        self._mirror = mirror
        self._waiting = waiting
        self._committer = committer
        self._clock = clock
        self._observer = observer
        self._tell = tell
        self._tick_s = tick_s
        self._retries_max = retries_max
        self._retry_wait_s = retry_wait_s
        self._accept_queue_max = accept_queue_max
        self._inbox: collections.deque[Submission] = collections.deque()
        self._inbox_items = 0
        self._knocked = asyncio.Event()
        self._slots = asyncio.Semaphore(ROUNDS_IN_FLIGHT_MAX)
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
        self._knocked.set()

    def hand_in(self, submission: Submission) -> None:
        """New tasks, to be accepted, decided and written down together."""
        if self._stopping or self.state.startswith("fenced"):
            raise Unavailable("this process does not schedule now", remedy="send it again in a moment")
        if self._inbox_items + len(submission.tasks) > self._accept_queue_max:
            raise Busy(f"{self._inbox_items} requests wait to be written down already")
        self._inbox.append(submission)
        self._inbox_items += len(submission.tasks)
        self._knocked.set()

    @contextlib.asynccontextmanager
    async def hold_still(self) -> AsyncIterator[None]:
        """No round is decided or written inside: for reloading the mirror and for taking things apart."""
        for _ in range(ROUNDS_IN_FLIGHT_MAX):
            await self._slots.acquire()
        try:
            yield
        finally:
            for _ in range(ROUNDS_IN_FLIGHT_MAX):
                self._slots.release()

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Become the leader and load what it needs. Returns when the first round could be decided."""
        await self._committer.take_fence()
        await self._mirror.load(self._store)
        await self._load_open_tasks()
        self._cursors = await self._committer.load_cursors()
        self.state = "ok"

    async def run(self) -> None:
        """Until stopped. A failure restarts the loop with growing waits and shows in health."""
        while not self._stopping:
            try:
                await self._run_rounds()
                return
            except Fenced:
                self.state = "fenced: another process became the leader of this database"
                log.warning("scheduler.fenced")
                self._refuse_inbox(Fenced("another process schedules now", remedy="send it again in a moment"))
                return
            except Exception as error:
                self._failures += 1
                self.state = f"restarting after {type(error).__name__}: {error}"
                if self._failures == 1:  # one line for each change of state, not for each try
                    log.exception("scheduler.failed")
                self._must_reload = True
                self._refuse_inbox(_away(error))
                await asyncio.sleep(min(RESTART_WAIT_S_MAX, 0.05 * 2 ** min(self._failures, 10)))

    async def stop(self) -> None:
        """Takes nothing new, writes what was handed in, ends."""
        self._stopping = True
        self._knocked.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_WAIT_S_MAX):
                while self._rounds or self._inbox:
                    await (asyncio.wait(self._rounds) if self._rounds else asyncio.sleep(0.01))
        self._refuse_inbox(Unavailable("the service stopped", remedy="send it again in a moment"))

    async def _run_rounds(self) -> None:
        while True:
            await self._wait_for_work()
            if self._stopping and not self._inbox:
                return
            if self._must_reload:
                await self._reload()
            self._failures = 0
            await self._slots.acquire()
            try:
                decided = await self._next_round()
            except BaseException:
                self._slots.release()
                raise
            if decided is None:
                self._slots.release()
                continue
            self.state = "ok"
            writing = asyncio.create_task(self._write(decided))
            self._rounds.add(writing)
            writing.add_done_callback(self._rounds.discard)

    async def _wait_for_work(self) -> None:
        if self._inbox:
            await asyncio.sleep(0)
            return
        if self._stopping:
            return
        alarm_ms = self._waiting.next_alarm_ms()
        wait_s = self._tick_s
        if alarm_ms is not None:
            wait_s = min(wait_s, max(0.0, (alarm_ms - self._clock.now_ms()) / 1000))
        try:
            async with asyncio.timeout(wait_s):
                await self._knocked.wait()
        except TimeoutError:
            pass  # the clock knocked
        self._knocked.clear()

    # ── one round ─────────────────────────────────────────────────────────────────────────────────

    async def _next_round(self) -> Round | None:
        now_ms = self._clock.now_ms()
        submissions = self._take_submissions()
        ringing = [task for task in self._waiting.ringing(now_ms) if task.id not in self._busy]
        due = {task.id for task in ringing}
        old = {task.id: task for task in self._waiting.hopeful(self._mirror.opening) if task.id not in self._busy}
        old.update((task.id, task) for task in ringing)
        if not submissions and not old:
            return None
        decided = Round(submissions=submissions, now_ms=now_ms, opening=self._mirror.opening)
        try:
            await self._decide(decided, [*old.values(), *(task for s in submissions for task in s.tasks)], due)
        except BaseException:
            self._undo(decided.placed)
            self._fail(submissions, Unavailable("the scheduler stopped on the way", remedy="send it again"))
            raise
        if not submissions and not decided.placed and not decided.retried and not decided.failed:
            return None
        self._busy.update(decided.touched())
        return decided

    def _take_submissions(self) -> list[Submission]:
        taken: list[Submission] = []
        items = 0
        while self._inbox and (not taken or items + len(self._inbox[0].tasks) <= BATCH_LIMIT):
            submission = self._inbox.popleft()
            taken.append(submission)
            items += len(submission.tasks)
        self._inbox_items -= items
        return taken

    async def _decide(self, decided: Round, tasks: list[Waiting], due: set[bytes]) -> None:
        """Places what fits; for the rest decides between waiting, another try and the end."""
        if any(task.priority for task in tasks):
            tasks.sort(key=lambda task: task.order)
            tasks = _gangs_together(tasks)
        reasons: dict[Shape, Explanation] = {}
        for chunk in _chunks(tasks, DECISIONS_AT_ONCE):
            requests = [Request(task.id, task.shape, task.gang) for task in chunk]
            plan = decide(self._mirror.fleet, requests, cursors=self._cursors)
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
        """V's waits: 3 s times the tries so far, and up to a second of jitter, drawn from the id."""
        if task.when_unplaceable is WhenUnplaceable.WAIT:
            return 0
        return now_ms + int(self._retry_wait_s * 1000 * task.attempt) + task.id[-1] * 1000 // 256

    # ── writing it down ───────────────────────────────────────────────────────────────────────────

    async def _write(self, decided: Round) -> None:
        started_s = self._clock.monotonic_s()
        try:
            outcome = await self._committer.commit(decided, self._mirror)
            self._settle(decided, outcome)
        except Fenced as error:
            self.state = "fenced: another process became the leader of this database"
            self._undo(decided.placed)
            self._fail(decided.submissions, error)
            self._refuse_inbox(error)
        except VirtflowError as error:
            if not self._must_reload:  # the first of a row, not each
                log.warning("round.not_written", error=error.detail, tasks=len(decided.placed))
            self._give_up(decided, error)
        except Exception as error:
            log.exception("round.failed")
            self._give_up(decided, error)
        finally:
            self._busy.difference_update(decided.touched())
            self._slots.release()
            self._observer.observe_round(self._clock.monotonic_s() - started_s)

    def _give_up(self, decided: Round, error: Exception) -> None:
        """Nothing of it is true: the room goes back, the callers are told, recorded tasks are tried again."""
        self._undo(decided.placed)
        self._must_reload = True
        self._fail(decided.submissions, error)
        again_ms = self._clock.now_ms() + AGAIN_AFTER_MS
        for task in [*(task for task, _ in decided.retried), *(task for task, _, _ in decided.failed)]:
            self._waiting.set_alarm(task, at_ms=again_ms)

    def _settle(self, decided: Round, outcome: Outcome) -> None:
        """The commit is durable: memory follows, then those who wait for an answer."""
        self._undo(outcome.taken_back)
        self._waiting.remove(outcome.over)
        for task in outcome.queued:
            self._waiting.add(task, tried_at=-1 if task.id in outcome.again else decided.opening)
        for task in outcome.retried:
            self._waiting.set_alarm(task)
        for submission in decided.submissions:
            submission.settle()
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

    def _refuse_inbox(self, error: Exception) -> None:
        waiting, self._inbox, self._inbox_items = self._inbox, collections.deque(), 0
        self._fail(waiting, error)

    async def _reload(self) -> None:
        """After a commit that failed or cannot be judged: the database is asked anew."""
        async with self.hold_still():
            await self._mirror.load(self._store)
            await self._load_open_tasks()
            self._must_reload = False

    async def _load_open_tasks(self) -> None:
        async for tasks in self._store.open_tasks():
            fresh = [task for task in tasks if task.id not in self._waiting]
            shapes = await self._store.shapes(sorted({task.shape_id for task in fresh}))
            for task in fresh:
                self._waiting.add(Waiting.from_task(task, shapes[task.shape_id], name=task.given_name))


def _away(error: Exception) -> Exception:
    if isinstance(error, VirtflowError):
        return error
    return Unavailable("the scheduler does not work now", remedy="send it again in a moment")


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
