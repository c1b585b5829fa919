"""One call of the API: what it takes, what it answers, and the function that does it.

Reading, refusing and answering are the same few lines for all of them.
"""

import dataclasses
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from virtflow.api.body import JSON, Bodies, has_body, refuse_body
from virtflow.api.errors import UnexpectedBody
from virtflow.api.exchange import JSON_TYPE, Exchange
from virtflow.api.idempotency import Key, key_of, once
from virtflow.api.orders import Orders, read_aside, read_one_or_many
from virtflow.api.query import NoQuery, read_query
from virtflow.api.router import Endpoint, Stream
from virtflow.api.settings import ApiSettings
from virtflow.api.versions import ANY, expected_version
from virtflow.control.house import House
from virtflow.control.orders import Receipt, Rendered
from virtflow.model.errors import NotFound, VersionMismatch

if TYPE_CHECKING:
    from virtflow.api.events import Streams
    from virtflow.api.vms import VmWriter

B = TypeVar("B")
Q = TypeVar("Q")
T = TypeVar("T")
D = TypeVar("D", bound=Callable[..., Awaitable[Any]])

#: there is one kind of caller so far: whoever reaches us or holds the token may do everything
OPERATOR = "operator"

#: keys of objects in order, so that the same thing always looks the same
encode = msgspec.json.Encoder(order="deterministic").encode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What every call has at hand."""

    house: House
    settings: ApiSettings
    bodies: Bodies
    orders: Orders
    streams: "Streams"
    vm_writer: "VmWriter"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[B, Q]):
    """One request, read and found right."""

    desk: Desk
    exchange: Exchange
    path: Mapping[str, str]
    query: Q
    body: B
    if_match: int | str | None = None
    key: Key | None = None
    actor: str = OPERATOR

    @property
    def house(self) -> House:
        return self.desk.house

    def receipt(self, render: Callable[[T], Rendered]) -> Receipt[T] | None:
        return None if self.key is None else self.key.receipt(render)

    async def version(self, exists: Callable[[], Awaitable[object]] | None = None) -> int | None:
        """The version that is expected. `If-Match: *` only asks that there is one, which `exists` looks up."""
        if self.if_match != ANY:
            return self.if_match if isinstance(self.if_match, int) else None
        if exists is not None:
            try:
                await exists()
            except NotFound as error:
                raise VersionMismatch(f"{error.detail}, so If-Match: * does not hold", current_version=0) from error
        return None


Do = Callable[[Call[Any, Any]], Awaitable[Rendered | Stream]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Everything about a call that the router and the OpenAPI document need."""

    method: str
    path: str
    do: Any
    id: str
    tag: str
    #: what the body is decoded to; None: no body is taken; a pair: the second is a list of the first in `items`
    body: Any = None
    types: tuple[str, ...] = JSON
    query: Any = NoQuery
    #: status -> what the answer is encoded from; None: nothing, a string: a media type
    answers: Mapping[int, Any]
    #: asked thousands of times a second: reads and answers by itself, and the gate knows its way
    is_hot: bool = False
    #: may be made conditional
    has_version: bool = False
    #: takes an Idempotency-Key
    repeatable: bool = False
    #: further statuses it may refuse with
    refusals: tuple[int, ...] = ()
    #: an example body
    example: object = None
    #: OpenAPI links of the success
    links: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def summary(self) -> str:
        return _docstring(self.do)[0]

    @property
    def description(self) -> str:
        return _docstring(self.do)[1]


def _docstring(do: Any) -> tuple[str, str]:
    first, _, rest = (do.__doc__ or "").strip().partition("\n")
    return first.strip().rstrip("."), " ".join(rest.split())


class Noun:
    """All calls of one noun, in the order of the document."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.operations: list[Operation] = []

    def call(self, method: str, path: str, *, answers: Mapping[int, Any], **words: Any) -> Callable[[D], D]:
        def keep(do: D) -> D:
            name = do.__name__
            self.operations.append(
                Operation(
                    method=method, path=path, do=do, id=words.pop("id", name), tag=self.tag, answers=answers, **words
                )
            )
            return do

        return keep

    def get(self, path: str, *, answers: Mapping[int, Any], **words: Any) -> Callable[[D], D]:
        return self.call("GET", path, answers=answers, **words)

    def post(self, path: str, *, answers: Mapping[int, Any], repeatable: bool = True, **words: Any) -> Callable[[D], D]:
        return self.call("POST", path, answers=answers, repeatable=repeatable, **words)

    def put(self, path: str, *, answers: Mapping[int, Any], **words: Any) -> Callable[[D], D]:
        return self.call("PUT", path, answers=answers, has_version=True, **words)

    def patch(self, path: str, *, answers: Mapping[int, Any], **words: Any) -> Callable[[D], D]:
        return self.call("PATCH", path, answers=answers, has_version=True, **words)

    def delete(self, path: str, *, answers: Mapping[int, Any], **words: Any) -> Callable[[D], D]:
        return self.call("DELETE", path, answers=answers, has_version=True, **words)


def endpoint_of(operation: Operation, desk: Desk) -> Endpoint:
    return functools.partial(_run, operation, desk)


async def _run(operation: Operation, desk: Desk, exchange: Exchange, path: Mapping[str, str]) -> Rendered | Stream:
    if operation.is_hot:
        rendered: Rendered = await operation.do(desk, exchange)
        return rendered
    call = await _read(operation, desk, exchange, path)
    answered: Rendered | Stream = await once(desk.house.answers, call.key, functools.partial(operation.do, call))
    return answered


async def _read(operation: Operation, desk: Desk, exchange: Exchange, path: Mapping[str, str]) -> Call[Any, Any]:
    """The order matters to callers: what the request is, before what it says."""
    query = read_query(exchange.scope.get("query_string", b""), operation.query)
    version = expected_version(exchange.headers) if operation.has_version else None
    body = await _read_body(operation, desk, exchange)
    return Call(
        desk=desk,
        exchange=exchange,
        path=path,
        query=query,
        body=body,
        if_match=version,
        key=key_of(exchange, principal=OPERATOR, meaning=body) if operation.repeatable else None,
    )


async def _read_body(operation: Operation, desk: Desk, exchange: Exchange) -> Any:
    if operation.body is None and not (operation.method == "POST" and has_body(exchange.headers)):
        refuse_body(exchange.headers)
        return None
    raw = await desk.bodies.read(exchange.headers, exchange.receive, types=operation.types)
    exchange.body_taken = True
    if operation.body is None:
        if raw.strip() not in (b"", b"{}"):
            raise UnexpectedBody("this call takes no body", remedy="leave the body out, or send {}")
        return None
    if isinstance(operation.body, tuple):
        return read_one_or_many(raw, *operation.body)
    return await read_aside(raw, operation.body)


def ok(content: object, *headers: tuple[str, str], status: int = 200) -> Rendered:
    return status, encode(content), (*JSON_TYPE, *headers)


def nothing() -> Rendered:
    return 204, b"", ()
