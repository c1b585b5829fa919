"""Dead letters: what could not be carried out, why, and what became of it."""

import enum
from collections.abc import Sequence

import msgspec


class DeadKind(enum.StrEnum):
    #: a request that failed for good; of an all-or-nothing request all tasks together
    TASK = "task"
    #: a message of the broker that cannot be obeyed
    MESSAGE = "message"


class FailedTasks(msgspec.Struct, frozen=True):
    """What the letter of a failed request says of it."""

    tasks: list[str]
    #: of the first
    vm: str = ""
    pool: str = ""


_NOBODY = FailedTasks([])
_decode = msgspec.json.Decoder(FailedTasks).decode
_encode = msgspec.json.Encoder().encode


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """It stays when it was sent again, so that one can see as what. The letter of a task bears the task's id."""

    id: str
    kind: DeadKind
    code: str
    reason: str
    #: of a task: `FailedTasks`; of a message: its beginning
    body: bytes = b""
    at_ms: int = 0
    requeued_ms: int | None = None
    #: the new task, the first of several; None for a message
    requeued_as: str | None = None
    #: its place in the list, given by the store
    number: int = 0

    @property
    def failed(self) -> FailedTasks:
        return _decode(self.body) if self.kind is DeadKind.TASK else _NOBODY

    @property
    def tasks(self) -> list[str]:
        return self.failed.tasks

    @property
    def is_open(self) -> bool:
        return self.requeued_ms is None

    def sent(self, *, at_ms: int, now_as: str | None) -> "DeadLetter":
        return msgspec.structs.replace(self, requeued_ms=at_ms, requeued_as=now_as)


def letter_of_tasks(ids: Sequence[str], *, vm: str, pool: str, code: str, reason: str, at_ms: int) -> DeadLetter:
    body = _encode(FailedTasks(list(ids), vm, pool))
    return DeadLetter(id=ids[0], kind=DeadKind.TASK, code=code, reason=reason, body=body, at_ms=at_ms)
