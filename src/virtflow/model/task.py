"""One request to place something, from acceptance to its single terminal state."""

import enum

import msgspec

from virtflow.model.errors import Conflict
from virtflow.model.explanation import Explanation
from virtflow.model.names import derived_vm_name, id_to_text


class TaskState(enum.IntEnum):
    """Stored as these numbers: add at the end, never renumber."""

    QUEUED = 0
    PROCESSING = 1
    COMPLETED = 2
    FAILED = 3
    CANCELLED = 4

    @property
    def word(self) -> str:
        return self.name.lower()


NEXT: dict[TaskState, frozenset[TaskState]] = {
    TaskState.QUEUED: frozenset({TaskState.PROCESSING, TaskState.CANCELLED}),
    TaskState.PROCESSING: frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.QUEUED, TaskState.CANCELLED}),
    TaskState.COMPLETED: frozenset(),
    TaskState.FAILED: frozenset(),
    TaskState.CANCELLED: frozenset(),
}
TERMINAL = frozenset(state for state, following in NEXT.items() if not following)
#: `/result` knows three words only
RESULT_WORD = {
    TaskState.QUEUED: "processing",
    TaskState.PROCESSING: "processing",
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "failed",
    TaskState.CANCELLED: "failed",
}


class WhenUnplaceable(enum.IntEnum):
    FAIL = 0
    WAIT = 1

    @property
    def word(self) -> str:
        return self.name.lower()


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One move in a task's life, for its history."""

    at_ms: int
    state: TaskState
    note: str = ""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task as the database has it. The task that first places a VM bears the VM's own id."""

    id: bytes
    instance_id: bytes
    #: None = the derived name
    given_name: str | None = None
    state: TaskState
    shape_id: int
    when_unplaceable: WhenUnplaceable = WhenUnplaceable.FAIL
    priority: int = 0
    #: how often it was tried without success
    attempt: int = 0
    accepted_ms: int = 0
    #: not before then is it tried again; 0 = at once
    next_try_ms: int = 0
    deadline_ms: int | None = None
    ended_ms: int | None = None
    host_id: int | None = None
    host: str | None = None
    address: str | None = None
    #: the members of an all-or-nothing request share one
    gang: bytes | None = None
    code: str | None = None
    #: one sentence, safe for tenants
    reason: str | None = None
    explanation: Explanation | None = None
    history: tuple[Step, ...] = ()
    #: of the request, for spans of other processes: a `traceparent`
    trace: str = ""
    version: int = 1

    @property
    def id_text(self) -> str:
        return id_to_text(self.id)

    @property
    def vm_name(self) -> str:
        return self.given_name or derived_vm_name(self.instance_id)

    @property
    def is_over(self) -> bool:
        return self.state in TERMINAL


def check_move(current: TaskState, following: TaskState) -> TaskState:
    """The only judge of moves: returns the new state, or refuses and changes nothing."""
    if following not in NEXT[current]:
        raise Conflict(f"a task that is {current.word} cannot become {following.word}", code="illegal_transition")
    return following


def diagram(table: dict[TaskState, frozenset[TaskState]]) -> str:
    """The table as a Mermaid diagram, for docs/."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> queued"]
    for state in sorted(table):
        lines += [f"    {state.word} --> {following.word}" for following in sorted(table[state])]
        if not table[state]:
            lines.append(f"    {state.word} --> [*]")
    return "\n".join([*lines, "```", ""])
