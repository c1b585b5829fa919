"""A list that is fetched page by page while it is read, and never without end."""

from collections.abc import Iterator
from typing import Generic

import msgspec

from virtflow.client.errors import BadAnswer
from virtflow.client.records import R, read
from virtflow.client.transport import Params, Transport
from virtflow.model.limits import PAGE_ITEMS_MAX

#: more than any fleet has; a caller who wants fewer says so
ITEMS_MAX = 10_000_000


class Page(msgspec.Struct):
    items: list[msgspec.Raw]
    next: str | None = None


class Pages(Generic[R]):
    """Iterate it, once or again. `has_more` says afterwards whether the limit cut the list off."""

    def __init__(
        self, transport: Transport, path: str, of: type[R], params: Params | None = None, *, limit: int | None = None
    ) -> None:
        self._transport = transport
        self._path = path
        self._of = of
        self._params = dict(params or {})
        self.limit = ITEMS_MAX if limit is None else limit
        self.has_more = False
        #: what the last page said beside its items, such as the state of the inventories
        self.beside: dict[str, msgspec.Raw] = {}

    def __iter__(self) -> Iterator[R]:
        cursor: str | None = None
        left, seen = self.limit, set[str]()
        self.has_more = False
        while left > 0:
            page = self._fetch(min(left, PAGE_ITEMS_MAX), cursor)
            yield from (read(raw, self._of) for raw in page.items[:left])
            left -= len(page.items)
            cursor = page.next
            if not cursor:
                return
            if cursor in seen:
                raise BadAnswer(f"{self._path} answers the same page again and again")
            seen.add(cursor)
        self.has_more = True

    def _fetch(self, items: int, cursor: str | None) -> Page:
        answer = self._transport.send("GET", self._path, params={**self._params, "limit": items, "cursor": cursor})
        try:
            parts = msgspec.json.decode(answer.content, type=dict[str, msgspec.Raw])
            page = msgspec.json.decode(answer.content, type=Page)
        except msgspec.MsgspecError as error:
            raise BadAnswer(f"{self._path} answers no page: {error}") from error
        self.beside = {name: raw for name, raw in parts.items() if name not in {"items", "next"}}
        return page
