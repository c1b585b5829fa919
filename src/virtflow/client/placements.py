"""Decisions without writing: the same code path as placing."""

from collections.abc import Mapping, Sequence

from virtflow.client.records import Preview, Previews
from virtflow.client.transport import Transport

PATH = "/v1/placements/explain"


class Placements:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def explain(self, order: Mapping[str, object], *, runners_up: int = 3) -> Preview:
        return self._transport.post(PATH, Preview, order, {"runners_up": runners_up})

    def explain_many(self, orders: Sequence[Mapping[str, object]], *, runners_up: int = 0) -> Previews:
        """In order, where each sees the room that the former took; therefore in one request, of 10,000 at most."""
        return self._transport.post(PATH, Previews, {"items": orders}, {"runners_up": runners_up})
