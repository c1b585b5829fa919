"""capacity: how many more of these fit."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from virtflow.cli import output, words
from virtflow.cli.connect import connect
from virtflow.cli.exits import Exit, UsageError
from virtflow.cli.options import Format, Output, ShapeOptions, takes
from virtflow.cli.order import resources_of
from virtflow.cli.screen import Screen
from virtflow.cli.table import Column, draw_table

if TYPE_CHECKING:
    from virtflow.client.records import Capacity, PoolCapacity


@takes(ShapeOptions)
def capacity(ctx: typer.Context, options: ShapeOptions, output_format: Output = Format.TABLE) -> int:
    """How many more such VMs fit, by pool, now and after the loss of the host that would hurt most."""
    resources = resources_of(options)
    if not resources:
        raise UsageError("how big?", remedy="say at least one of --cpu 4 and --memory 8GiB")
    with connect(ctx) as client:
        found = client.capacity(
            resources,
            pool=options.pool,
            dedicated=options.dedicated and options.dedicated.value,
            labels=words.key_values(options.label, "--label"),
            zone=options.zone,
        )
    output.show_one(found, output_format, lambda screen: draw_capacity(found, screen), str(found.total))
    return Exit.OK


def draw_capacity(found: "Capacity", screen: Screen) -> Iterator[str]:
    yield f"How many more VMs with {words.say_all(found.resources)} fit:"
    yield ""
    columns: list[Column[PoolCapacity]] = [
        Column("POOL", lambda pool: words.say_pool(pool.pool), is_needed=True),
        Column("FIT", lambda pool: f"{pool.total:,}", is_needed=True, is_number=True),
        Column("AFTER A LOSS", lambda pool: f"{pool.total_after_loss:,}", is_needed=True, is_number=True),
        Column("HOSTS", lambda pool: f"{pool.hosts:,}", is_number=True),
        Column("THAT WOULD HURT MOST", lambda pool: pool.biggest_host or ""),
    ]
    yield from draw_table(found.pools, columns, screen)
    yield ""
    yield f"In all {found.total:,}; {found.total_after_loss:,} after the loss of one host."
