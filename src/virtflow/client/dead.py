"""Dead letters: what failed for good."""

from virtflow.client.pages import Pages
from virtflow.client.records import DeadLetter
from virtflow.client.transport import Transport, segment

PATH = "/v1/dead"


class Dead:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self, *, kind: str | None = None, with_requeued: bool = False, limit: int | None = None
    ) -> Pages[DeadLetter]:
        params = {"kind": kind, "requeued": True if with_requeued else None}
        return Pages(self._transport, PATH, DeadLetter, params, limit=limit)

    def get(self, letter_id: str) -> DeadLetter:
        return self._transport.get(f"{PATH}/{segment(letter_id)}", DeadLetter)

    def requeue(self, letter_id: str) -> DeadLetter:
        """Sent again, once; `requeued_as` is the new task."""
        return self._transport.post(f"{PATH}/{segment(letter_id)}/requeue", DeadLetter)

    def delete(self, letter_id: str) -> None:
        self._transport.delete(f"{PATH}/{segment(letter_id)}")
