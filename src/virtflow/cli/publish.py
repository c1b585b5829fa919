"""publish: a producer alone, that needs the database and the broker and no server."""

import importlib
from typing import Annotated, Any

import typer

from virtflow.cli.exits import UsageError
from virtflow.cli.options import Format, OrderOptions, Output, takes
from virtflow.cli.place import COUNT_MAX, ORDERS_AT_ONCE, File, MaybeName, orders_of


@takes(OrderOptions)
def publish(
    options: OrderOptions,
    name: MaybeName = None,
    file: File = None,
    count: Annotated[int, typer.Option(min=1, max=COUNT_MAX, metavar="N", help="So many: NAME-1, NAME-2 …")] = 1,
    all_or_nothing: Annotated[bool, typer.Option("--all-or-nothing", help="All of them together, or none.")] = False,
    database_url: Annotated[
        str | None, typer.Option("--database-url", metavar="URL", help="postgresql://…, which the servers share.")
    ] = None,
    broker_url: Annotated[
        str | None, typer.Option("--broker-url", metavar="URL", help="amqp://… of the RabbitMQ that carries knocks.")
    ] = None,
    config_file: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="A TOML file with settings.")
    ] = None,
    output_format: Output = Format.TABLE,
) -> int:
    """Ask for VMs without a server: write the requests into the shared database, and knock at the broker.

    Takes the same options and files as `place`, and the settings of a server (VIRTFLOW_DATABASE_URL and so on).
    Whichever server leads places them; `virtflow get tasks` of any server shows what became of them.
    """
    orders = orders_of(options, name, file, count)
    if all_or_nothing and len(orders) > ORDERS_AT_ONCE:
        raise UsageError(f"--all-or-nothing takes at most {ORDERS_AT_ONCE:,} at once, not {len(orders):,}")
    given = {"database-url": database_url, "broker-url": broker_url, "config": config_file}
    words = [word for key, value in given.items() if value is not None for word in (f"--{key}", value)]
    main: Any = importlib.import_module("virtflow.main")
    return int(main.publish([*words, "-o", output_format.value], orders=orders, all_or_nothing=all_or_nothing))
