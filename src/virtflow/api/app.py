"""The whole API as one ASGI app."""

import functools
from collections.abc import Sequence
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from virtflow.api import docs
from virtflow.api.body import Bodies
from virtflow.api.capacity import capacity
from virtflow.api.dead import dead
from virtflow.api.errors import NoSuchRoute, WrongMethod
from virtflow.api.events import Streams, events
from virtflow.api.exchange import JSON_TYPE, KEY, Exchange
from virtflow.api.fleet import fleet
from virtflow.api.gate import Gate, Hot
from virtflow.api.health import health
from virtflow.api.hosts import hosts
from virtflow.api.openapi import DESCRIPTION, TAGS, TITLE, complete, operation_document
from virtflow.api.operation import Desk, Operation, Sent, add_route
from virtflow.api.orders import Orders
from virtflow.api.outlets import outlets
from virtflow.api.placements import placements
from virtflow.api.pools import pools
from virtflow.api.processes import processes
from virtflow.api.schedule import schedule
from virtflow.api.settings import ApiSettings
from virtflow.api.strategies import strategies
from virtflow.api.tasks import tasks
from virtflow.api.vms import VmWriter, vms
from virtflow.api.webhooks import webhooks
from virtflow.control.house import House

NOUNS = (
    schedule,
    hosts,
    pools,
    vms,
    tasks,
    dead,
    placements,
    capacity,
    events,
    outlets,
    webhooks,
    strategies,
    fleet,
    processes,
    health,
)
OPERATIONS: tuple[Operation, ...] = tuple(operation for noun in NOUNS for operation in noun.operations)


def create_app(house: House, *, settings: ApiSettings) -> Gate:
    desk = Desk(
        house=house,
        settings=settings,
        bodies=Bodies(
            bytes_max=settings.body_bytes_max,
            total_bytes_max=settings.bodies_bytes_max,
            s_max=settings.body_s_max,
        ),
        orders=Orders(),
        streams=Streams(settings),
        vm_writer=VmWriter(),
    )
    posts, gets = _hot_routes(desk)
    return Gate(
        _behind(desk),
        posts=posts,
        gets=gets,
        settings=settings,
        observe=house.metrics.observe_request,
        tracer=house.tracer,
    )


def _hot_routes(desk: Desk) -> tuple[dict[str, Hot], dict[str, Hot]]:
    """By whole path for what is posted, by folder for what is read."""
    hot = [operation for operation in OPERATIONS if operation.is_hot]
    posts: dict[str, Hot] = {one.path: functools.partial(one.do, desk) for one in hot if one.method == "POST"}
    gets: dict[str, Hot] = {
        one.path.split("/")[1]: functools.partial(one.do, desk) for one in hot if one.method == "GET"
    }
    return posts, gets


def _behind(desk: Desk) -> FastAPI:
    app = FastAPI(
        title=TITLE,
        version=desk.settings.version or "0",
        description=DESCRIPTION.strip(),
        openapi_tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        openapi_url=None,  # ours is served below: as bytes, and with our own headers
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _unrouted},
    )
    for operation in OPERATIONS:
        add_route(app.router, operation, desk, operation_document(operation))
    _add_documents(app, needs_token=bool(desk.settings.token))
    return app


def _add_documents(app: FastAPI, *, needs_token: bool) -> None:
    @functools.cache  # made when first asked for: a start is not the moment for it
    def document() -> bytes:
        return msgspec.json.encode(complete(app, OPERATIONS, needs_token=needs_token))

    async def openapi(request: Request) -> Response:
        return Sent(_exchange(request, "/openapi.json"), (200, document(), JSON_TYPE))

    async def page(request: Request) -> Response:
        return Sent(_exchange(request, "/docs"), docs.page())

    async def file(request: Request) -> Response:
        exchange = _exchange(request, "/docs/{file}")
        try:
            return Sent(exchange, docs.file(exchange, request.path_params["file"]))
        except NoSuchRoute as error:
            exchange.failure = error
            return Sent(exchange, None)

    app.router.routes.extend([Route("/openapi.json", openapi), Route("/docs", page), Route("/docs/{file}", file)])


def _exchange(request: Request, route: str) -> Exchange:
    exchange: Exchange = request.scope[KEY]
    exchange.route = route
    return exchange


async def _unrouted(request: Request, error: Exception) -> Response:
    """FastAPI found no route, or one by another method; which methods there are, its own answer does not tell."""
    exchange: Exchange = request.scope[KEY]
    allowed = _methods(request.app.routes, exchange.path)
    exchange.failure = (
        WrongMethod(exchange.method[:20], allowed=allowed)
        if allowed
        else NoSuchRoute(f"nothing lives at {exchange.shown_path[:200]}", remedy="/docs shows what there is")
    )
    return Sent(exchange, None)


def _methods(routes: Sequence[BaseRoute], path: str) -> list[str]:
    methods: set[str] = set()
    for route in routes:
        regex: Any = getattr(route, "path_regex", None)
        if regex is not None and regex.match(path):
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)
