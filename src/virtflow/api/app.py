"""The whole API as one ASGI app."""

import functools
from collections.abc import Mapping

import msgspec

from virtflow.api import docs
from virtflow.api.body import Bodies
from virtflow.api.capacity import capacity
from virtflow.api.dead import dead
from virtflow.api.events import Streams, events
from virtflow.api.exchange import JSON_TYPE, Exchange
from virtflow.api.fleet import fleet
from virtflow.api.gate import Gate, Hot
from virtflow.api.health import health
from virtflow.api.hosts import hosts
from virtflow.api.openapi import document_of
from virtflow.api.operation import Desk, Operation, endpoint_of
from virtflow.api.orders import Orders
from virtflow.api.outlets import outlets
from virtflow.api.placements import placements
from virtflow.api.pools import pools
from virtflow.api.processes import processes
from virtflow.api.router import Router
from virtflow.api.schedule import schedule
from virtflow.api.settings import ApiSettings
from virtflow.api.strategies import strategies
from virtflow.api.tasks import tasks
from virtflow.api.vms import VmWriter, vms
from virtflow.api.webhooks import webhooks
from virtflow.control.house import House
from virtflow.control.orders import Rendered

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
        _router(desk),
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


def _router(desk: Desk) -> Router:
    router = Router()
    for operation in OPERATIONS:
        router.add(operation.method, operation.path, endpoint_of(operation, desk))
    _add_documents(router, desk.settings)
    return router


def _add_documents(router: Router, settings: ApiSettings) -> None:
    @functools.cache  # made when first asked for: a start is not the moment for it
    def document() -> bytes:
        return msgspec.json.encode(document_of(OPERATIONS, version=settings.version, needs_token=bool(settings.token)))

    async def openapi(_exchange: Exchange, _names: Mapping[str, str]) -> Rendered:
        return 200, document(), JSON_TYPE

    async def page(_exchange: Exchange, _names: Mapping[str, str]) -> Rendered:
        return docs.page()

    async def file(exchange: Exchange, names: Mapping[str, str]) -> Rendered:
        return docs.file(exchange, names["file"])

    router.add("GET", "/openapi.json", openapi)
    router.add("GET", "/docs", page)
    router.add("GET", "/docs/{file}", file)
