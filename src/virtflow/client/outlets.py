"""Outlets: who is told of events, and how far."""

from virtflow.client.pages import Pages
from virtflow.client.records import Outlet
from virtflow.client.transport import Transport, segment

PATH = "/v1/outlets"


class Outlets:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, limit: int | None = None) -> Pages[Outlet]:
        return Pages(self._transport, PATH, Outlet, limit=limit)

    def get(self, name: str) -> Outlet:
        return self._transport.get(f"{PATH}/{segment(name)}", Outlet)
