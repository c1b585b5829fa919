"""A line in the log for each task, with the time that each of its steps took."""

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import structlog

from virtflow.control.commit import Outcome, Round
from virtflow.control.waiting import Waiting
from virtflow.model.limits import ANSWER_S_MAX
from virtflow.model.names import derived_vm_name, id_to_text

#: a task that took so long, from acceptance to its host, is worth a line to everybody
SLOW_S = 1.0
#: such lines of one round; the rest is only counted
LINES_MAX = 100


class Steps(NamedTuple):
    """When a round came by what, by the monotonic clock."""

    began_s: float
    decided_s: float
    committed_s: float
    told_s: float


class _Line(NamedTuple):
    is_notable: bool
    event: str
    #: made only when the line is written: a round has thousands
    fields: Callable[[], dict[str, Any]]


class Journal:
    """At level debug every task has its lines; at info those that wait, fail, or took long."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("virtflow.tasks").bind()
        # asked once: thousands of lines a second that nobody writes are not made either
        self._notes_all = self._log.is_enabled_for(logging.DEBUG)
        self._notes_any = self._log.is_enabled_for(logging.INFO)

    def settled(self, decided: Round, outcome: Outcome, steps: Steps) -> None:
        if not self._notes_any or not (self._notes_all or _is_notable(decided, steps)):
            return
        notable = 0
        for line in _lines(decided, outcome, steps):
            notable += line.is_notable
            if not line.is_notable and self._notes_all:
                self._log.debug(line.event, **line.fields())
            elif line.is_notable and notable <= LINES_MAX:
                self._log.info(line.event, **line.fields())
        if notable > LINES_MAX:
            self._log.info("tasks.more", count=notable - LINES_MAX)


def _is_notable(decided: Round, steps: Steps) -> bool:
    if decided.failed or (decided.queued and not decided.is_acceptance):
        return True
    if decided.submissions and steps.told_s - _handed_in_s(decided.submissions[0].due_s) >= SLOW_S:  # the oldest
        return True
    return any(task.recorded and _waited_s(task, decided) >= SLOW_S for task, _ in decided.placed)


def _lines(decided: Round, outcome: Outcome, steps: Steps) -> Iterator[_Line]:
    over = set(outcome.over)
    asked = {task.id: submission for submission in decided.submissions for task in submission.tasks}

    def waited_s(task: Waiting) -> float:
        submission = asked.get(task.id)
        if submission is None:
            return _waited_s(task, decided)
        return steps.began_s - _handed_in_s(submission.due_s)

    def line(event: str, task: Waiting, *, is_notable: bool, **more: Any) -> _Line:
        submission = asked.get(task.id)
        more["request_id"] = submission.cause.request_id if submission else ""
        return _Line(is_notable, event, lambda: _fields(task, waited_s(task), steps, more))

    for task, placement in decided.placed:
        if task.id in over:
            is_slow = waited_s(task) + steps.told_s - steps.began_s >= SLOW_S
            yield line("task.placed", task, is_notable=is_slow, host=placement.host, tries=task.attempt + 1)
    for task, _ in decided.queued:
        event = "task.accepted" if decided.is_acceptance else "task.waits"
        yield line(event, task, is_notable=not decided.is_acceptance)
    for task, _ in decided.retried:
        yield line("task.retried", task, is_notable=False, tries=task.attempt)
    for task, code, why in decided.failed:
        if task.id in over:
            tries = task.attempt + 1
            yield line("task.failed", task, is_notable=True, tries=tries, code=code or why.code, reason=why.text)


def _fields(task: Waiting, waited_s: float, steps: Steps, more: dict[str, Any]) -> dict[str, Any]:
    return {
        "task": id_to_text(task.id),
        "vm": task.name or derived_vm_name(task.id),
        **{name: value for name, value in ({"pool": task.shape.pool} | more).items() if value},
        "waited_ms": _ms(waited_s),
        "decided_ms": _ms(steps.decided_s - steps.began_s),
        "committed_ms": _ms(steps.committed_s - steps.decided_s),
        "told_ms": _ms(steps.told_s - steps.committed_s),
        "total_ms": _ms(waited_s + steps.told_s - steps.began_s),
    }


def _handed_in_s(due_s: float) -> float:
    return due_s - ANSWER_S_MAX


def _waited_s(task: Waiting, decided: Round) -> float:
    """By the wall clock: another process may have accepted it."""
    return max(0.0, (decided.now_ms - task.accepted_ms) / 1000)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
