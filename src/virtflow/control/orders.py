"""What callers hand in: orders for VMs, and receipts for requests that may be repeated."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from virtflow.model.shape import Shape
from virtflow.model.task import WhenUnplaceable
from virtflow.model.webhook import Callback
from virtflow.store.contract import Answer

T = TypeVar("T")

#: status, body, headers
Rendered = tuple[int, bytes, tuple[tuple[str, str], ...]]


class Cause(NamedTuple):
    """The request for which something is done."""

    request_id: str = ""
    #: its `traceparent`; empty where no trace is made
    trace: str = ""


class VmOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One VM that somebody wants."""

    shape: Shape
    name: str | None = None
    #: a task id of the client's choice, as text
    task_id: str | None = None
    when_unplaceable: WhenUnplaceable = WhenUnplaceable.WAIT
    priority: int = 0
    deadline_s: int | None = None
    #: who wants to hear of the end of the task
    callback: Callback | None = None


class Receipt(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """An Idempotency-Key and how to write the answer down, in the transaction that makes it true."""

    principal: str
    key: str
    request_hash: bytes
    render: Callable[[T], Rendered]

    def answer(self, result: T, now_ms: int) -> Answer:
        status, body, headers = self.render(result)
        return Answer(
            principal=self.principal,
            key=self.key,
            request_hash=self.request_hash,
            status=status,
            body=body,
            headers=headers,
            created_ms=now_ms,
        )
