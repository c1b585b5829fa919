"""The fleet in numbers, and what this installation is."""

import msgspec

from virtflow.api.inventory import InventoryOut, inventories_out
from virtflow.api.operation import Call, Noun, ok
from virtflow.api.query import NoQuery
from virtflow.control.orders import Rendered
from virtflow.model.views import PoolSummary

fleet = Noun("fleet")


class FleetOut(msgspec.Struct, frozen=True, kw_only=True):
    """All pools, all tasks, all inventories."""

    default_strategy: str
    instances: int
    instances_placed: int
    #: null: nothing waits
    oldest_waiting_s: float | None
    #: by state
    tasks: dict[str, int]
    pools: list[PoolSummary]
    inventory: list[InventoryOut]


class InfoOut(msgspec.Struct, frozen=True, kw_only=True):
    """What this installation is."""

    version: str
    database: str
    #: drawn when the database was made: another one is another history of events
    history_id: str
    strategy: str


@fleet.get("/v1/fleet", answers={200: FleetOut})
async def get_fleet(call: Call[None, NoQuery]) -> Rendered:
    """Read the fleet in numbers."""
    summary = await call.house.summary.fleet()
    return ok(
        FleetOut(
            default_strategy=summary.default_strategy,
            instances=summary.instances,
            instances_placed=summary.instances_placed,
            oldest_waiting_s=summary.oldest_waiting_s,
            tasks=summary.tasks,
            pools=list(summary.pools),
            inventory=inventories_out(summary.inventory),
        )
    )


@fleet.get("/v1/info", answers={200: InfoOut})
async def get_info(call: Call[None, NoQuery]) -> Rendered:
    """Read what this installation is."""
    settings = call.desk.settings
    return ok(
        InfoOut(
            version=settings.version,
            database=settings.database,
            history_id=await call.house.events.history_id(),
            strategy=call.house.placements.default_strategy,
        )
    )
