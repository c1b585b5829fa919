"""Which call a method and a path mean."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping

from virtflow.api.errors import NoSuchRoute, WrongMethod
from virtflow.api.exchange import Exchange
from virtflow.control.orders import Rendered

#: an answer that is sent piece by piece
Stream = Callable[[Exchange], Awaitable[None]]
#: with what stands in the path where its template has a name in braces
Endpoint = Callable[[Exchange, Mapping[str, str]], Awaitable[Rendered | Stream]]

_NAME = re.compile(r"{(\w+)}")
_NOTHING: Mapping[str, str] = {}


class Router:
    """A path as it stands goes before a template that it fits."""

    def __init__(self) -> None:
        self._plain: dict[str, dict[str, Endpoint]] = {}
        self._templates: dict[str, tuple[re.Pattern[str], dict[str, Endpoint]]] = {}

    def add(self, method: str, path: str, endpoint: Endpoint) -> None:
        if "{" in path:
            pattern = re.compile(_NAME.sub(r"(?P<\1>[^/]+)", path))
            _, endpoints = self._templates.setdefault(path, (pattern, {}))
        else:
            endpoints = self._plain.setdefault(path, {})
        endpoints[method] = endpoint

    async def answer(self, exchange: Exchange) -> None:
        answer = await self._find(exchange)
        if isinstance(answer, tuple):
            await exchange.answer(answer)
        else:
            await answer(exchange)

    def _find(self, exchange: Exchange) -> Awaitable[Rendered | Stream]:
        allowed: set[str] = set()
        for template, names, endpoints in self._matches(exchange.path):
            if exchange.method in endpoints:
                exchange.route = template
                return endpoints[exchange.method](exchange, names)
            allowed |= endpoints.keys()
        if allowed:
            raise WrongMethod(exchange.method[:20], allowed=sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))
        raise NoSuchRoute(f"nothing lives at {exchange.shown_path[:200]}", remedy="/docs shows what there is")

    def _matches(self, path: str) -> Iterator[tuple[str, Mapping[str, str], Mapping[str, Endpoint]]]:
        if path in self._plain:
            yield path, _NOTHING, self._plain[path]
        for template, (pattern, endpoints) in self._templates.items():
            if found := pattern.fullmatch(path):
                yield template, found.groupdict(), endpoints
