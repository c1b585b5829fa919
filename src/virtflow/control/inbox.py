"""Requests taken in and not yet written down: the door between callers and the loop."""

import asyncio
import collections
from collections.abc import Iterable

from virtflow.control.submission import Submission
from virtflow.model.errors import Busy, Unavailable
from virtflow.model.limits import ANSWER_S_MAX, BATCH_LIMIT


class Inbox:
    """Bounded; what does not fit is refused at the door."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._waiting: collections.deque[Submission] = collections.deque()
        self._tasks = 0
        #: in the order in which they came, and with them some that were answered meanwhile
        self._unanswered: collections.deque[Submission] = collections.deque()
        #: set whenever something came in
        self.knocked = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, submission: Submission, *, now_s: float) -> None:
        if self._tasks + len(submission.tasks) > self._limit:
            raise Busy(f"{self._tasks} requests wait to be written down already")
        submission.due_s = now_s + ANSWER_S_MAX
        self._unanswered.append(submission)
        self._waiting.append(submission)
        self._tasks += len(submission.tasks)
        self.knocked.set()

    def put_back(self, submissions: Iterable[Submission]) -> None:
        """They came in before all others, and are not refused now."""
        for submission in reversed(list(submissions)):
            self._waiting.appendleft(submission)
            self._tasks += len(submission.tasks)
        self.knocked.set()

    def take(self) -> list[Submission]:
        """As many as make a round, at least one."""
        taken: list[Submission] = []
        tasks = 0
        while self._waiting and (not taken or tasks + len(self._waiting[0].tasks) <= BATCH_LIMIT):
            submission = self._waiting.popleft()
            taken.append(submission)
            tasks += len(submission.tasks)
        self._tasks -= tasks
        return taken

    def refuse_overdue(self, *, now_s: float) -> None:
        """Nobody waits for ever, whatever became of the database."""
        while self._unanswered and (self._unanswered[0].done.done() or self._unanswered[0].due_s <= now_s):
            submission = self._unanswered.popleft()
            if submission.done.done():
                continue
            if submission in self._waiting:
                self._withdraw(submission)
            else:  # a round has it, and that round hangs
                submission.answer_before_the_end()

    def _withdraw(self, submission: Submission) -> None:
        self._waiting.remove(submission)
        self._tasks -= len(submission.tasks)
        submission.fail(
            Unavailable("the database did not answer in time; nothing was done", remedy="try again in a moment")
        )

    def refuse(self, error: Exception) -> None:
        """Everybody who waits is told so."""
        waiting, self._waiting, self._tasks = self._waiting, collections.deque(), 0
        for submission in waiting:
            submission.fail(error)
