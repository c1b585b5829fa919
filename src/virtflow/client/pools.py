"""Pools and their settings. The pool "" is one like any other."""

from collections.abc import Mapping

from virtflow.client.pages import Pages
from virtflow.client.records import Pool
from virtflow.client.transport import Transport, segment

PATH = "/v1/pools"


class Pools:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, limit: int | None = None) -> Pages[Pool]:
        return Pages(self._transport, PATH, Pool, limit=limit)

    def get(self, name: str) -> Pool:
        return self._transport.get(f"{PATH}/{segment(name)}", Pool)

    def replace(self, name: str, settings: Mapping[str, object], *, version: int | None = None) -> Pool:
        """`overcommit`, `strategy`, `accepts_work`; what is left out gets its default."""
        return self._transport.put(f"{PATH}/{segment(name)}", Pool, settings, if_match=version)

    def delete(self, name: str, *, version: int | None = None) -> None:
        """Forgets the settings; hosts go on naming the pool."""
        self._transport.delete(f"{PATH}/{segment(name)}", if_match=version)
