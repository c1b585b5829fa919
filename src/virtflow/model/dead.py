"""Dead letters: what could not be carried out, why, and what became of it."""

import enum
from collections.abc import Mapping, Sequence

import msgspec

from virtflow.model.secret import Secret
from virtflow.model.webhook import Callback


class DeadKind(enum.StrEnum):
    #: a request that failed for good; of an all-or-nothing request all tasks together
    TASK = "task"
    #: a message of the broker that cannot be obeyed
    MESSAGE = "message"


class FailedTasks(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the letter of a failed request says of it."""

    tasks: list[str]
    #: of the first
    vm: str = ""
    pool: str = ""
    #: task -> URL and secret of whoever wanted to hear of its end, and will of that of the next
    callbacks: dict[str, tuple[str, str]] = {}

    def callback_of(self, task_id: str) -> Callback | None:
        if task_id not in self.callbacks:
            return None
        url, secret = self.callbacks[task_id]
        return Callback(url, Secret(secret))


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


def letter_of_tasks(
    ids: Sequence[str],
    *,
    vm: str,
    pool: str,
    code: str,
    reason: str,
    at_ms: int,
    callbacks: Mapping[str, Callback] | None = None,
) -> DeadLetter:
    wanted = {key: (one.url, one.secret.reveal()) for key, one in (callbacks or {}).items()}
    body = _encode(FailedTasks(list(ids), vm, pool, wanted))
    return DeadLetter(id=ids[0], kind=DeadKind.TASK, code=code, reason=reason, body=body, at_ms=at_ms)
