"""Hosts: get, describe, add, delete, cordon, uncordon."""

import dataclasses
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output, vms, words
from virtflow.cli.connect import connect
from virtflow.cli.exits import Exit, try_each
from virtflow.cli.options import Format, Limit, OfLabel, OfPool, Output, Ratios, Watch, takes
from virtflow.cli.reading import read_list
from virtflow.cli.screen import Screen, screen_of
from virtflow.cli.table import Column, draw_facts, draw_table
from virtflow.cli.verbs import add, delete, describe, get, noun

if TYPE_CHECKING:
    from virtflow.client.pages import Pages
    from virtflow.client.records import Host, Vm

Names = Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
MaybeNames = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", show_default=False)]
VMS_SHOWN = 20


def state(host: "Host") -> str:
    """The reason why it takes nothing, or ready."""
    if host.missing_since is not None:
        return "missing"
    if host.cordoned:
        return "cordoned"
    return "self" if host.carries_virtflow else "ready"


STYLES = {"ready": "green", "cordoned": "yellow", "self": "cyan", "missing": "red"}


def _use(dimension: str, host: "Host") -> str:
    whole = host.allocatable.get(dimension, 0)
    return words.say_pair(dimension, host.used.get(dimension, 0), whole) if whole else ""


def columns(screen_now: Screen) -> "list[Column[Host]]":
    return [
        Column("NAME", lambda host: host.name, is_needed=True),
        Column("POOL", lambda host: words.say_pool(host.pool), is_needed=True),
        Column("STATE", state, is_needed=True, style=lambda host: STYLES[state(host)]),
        Column("VMS", lambda host: str(host.instances), is_number=True),
        Column("CPU", partial(_use, "cpu"), is_number=True),
        Column("MEMORY", partial(_use, "memory"), is_number=True),
        Column("GPU", partial(_use, "gpu"), is_number=True),
        Column("DEDICATED", lambda host: "yes" if host.dedicated else ""),
        Column("ZONE", lambda host: host.zone),
        Column("DISK", partial(_use, "disk"), is_wide=True, is_number=True),
        Column("RACK", lambda host: host.rack, is_wide=True),
        Column("ADDRESS", lambda host: host.address, is_wide=True),
        Column("MODEL", lambda host: host.model, is_wide=True),
        Column("SOURCE", lambda host: host.source, is_wide=True),
        Column("OVERCOMMIT", lambda host: words.say_ratios(host.overcommit), is_wide=True),
        Column("LABELS", lambda host: words.say_labels(host.labels), is_wide=True),
        Column("AGE", lambda host: words.say_age(host.created_at, screen_now.now), is_wide=True),
    ]


@noun(get, "hosts")
def get_hosts(
    ctx: typer.Context,
    names: MaybeNames = None,
    pool: OfPool = None,
    zone: Annotated[str | None, typer.Option(metavar="ZONE", help="Only in this zone.")] = None,
    label: OfLabel = None,
    cordoned: Annotated[
        bool | None, typer.Option("--cordoned/--not-cordoned", help="Only those, or the others.")
    ] = None,
    missing: Annotated[
        bool | None, typer.Option("--missing/--not-missing", help="Only those that their inventory no longer lists.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="Only from there: api, file, http or simulated.")
    ] = None,
    limit: Limit = None,
    watch: Watch = False,
    output_format: Output = Format.TABLE,
) -> int:
    """List hosts with their use."""
    with connect(ctx) as client:
        hosts = client.hosts.list(
            pool=pool,
            zone=zone,
            labels=words.key_values(label, "--label"),
            cordoned=cordoned,
            missing=missing,
            source=source,
            limit=output.limit_for(output_format, limit),
        )
        code = read_list(
            client,
            names,
            find=client.hosts.get,
            find_all=lambda: hosts,
            columns=columns,
            name=lambda host: host.name,
            kind="hosts",
            events=("host.", "task.completed", "vm."),
            watch=watch,
            output_format=output_format,
        )
        output.say(*_warnings(hosts))
    return code


def _warnings(hosts: "Pages[Host]") -> Iterator[str]:
    """What is shown may be old: the source has not answered lately."""
    from virtflow.cli.fleet import draw_inventory
    from virtflow.client.records import Inventory, read_all

    for inventory in read_all(hosts.beside.get("inventory", b"[]"), Inventory):
        if inventory.state != "fresh":
            yield draw_inventory(inventory, screen_of(sys.stderr))


@noun(describe, "host")
def describe_host(ctx: typer.Context, name: Name, output_format: Output = Format.TABLE) -> int:
    """Everything about a host: its room in every dimension, and what is on it."""
    with connect(ctx) as client:
        host = client.hosts.get(name)
        guests = list(client.vms.list(host=name, limit=VMS_SHOWN)) if output_format is Format.TABLE else []
        output.show_one(host, output_format, lambda screen: draw_host(host, guests, screen), host.name)
    return Exit.OK


def draw_host(host: "Host", guests: "list[Vm]", screen: Screen) -> Iterator[str]:
    missing = f" since {words.say_time(host.missing_since, screen.now)}" if host.missing_since else ""
    facts = [
        ("host", host.name),
        ("pool", words.say_pool(host.pool)),
        ("state", state(host) + missing),
        ("carries", "virtflow itself, and therefore takes nothing" if host.carries_virtflow else ""),
        ("dedicated", "yes" if host.dedicated else "no"),
        ("address", host.address),
        ("zone", host.zone),
        ("rack", host.rack),
        ("model", host.model),
        ("labels", words.say_labels(host.labels)),
        ("source", host.source),
        ("version", f"{host.version}, changed {words.say_time(host.updated_at, screen.now)}"),
    ]
    yield from draw_facts(facts, screen)
    yield ""
    yield from draw_table(words.in_order(host.allocatable), _room_columns(host), screen)
    if guests:
        yield ""
        yield from draw_table(guests, vms.columns(screen), screen)
    if host.instances > len(guests):
        yield f"and {host.instances - len(guests)} more: virtflow get vms --host {host.name}"


def _room_columns(host: "Host") -> list[Column[str]]:
    def column(title: str, amounts: dict[str, int]) -> Column[str]:
        return Column(
            title,
            lambda name: words.say_about(name, amounts[name]) if amounts.get(name) else "0" if title in _ALWAYS else "",
            is_number=True,
        )

    return [
        Column("RESOURCE", str, is_needed=True),
        column("USED", host.used),
        column("FREE", host.free),
        column("ALLOCATABLE", host.allocatable),
        column("CAPACITY", host.capacity),
        Column("RATIO", lambda name: f"{host.overcommit[name]:g}" if name in host.overcommit else "", is_number=True),
        column("RESERVED", host.reserved),
        column("BY OTHERS", host.foreign),
    ]


_ALWAYS = frozenset({"USED", "FREE", "ALLOCATABLE"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """What may be said about a host on the line; a file can say the same."""

    cpu: Annotated[str, typer.Option(metavar="CORES", help="Cores it has: 64.")]
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory it has: 256GiB.")]
    disk: Annotated[str | None, typer.Option(metavar="SIZE", help="Disk it has: 2T, or 500 (GiB).")] = None
    gpu: Annotated[int | None, typer.Option(min=0, metavar="N", help="GPUs it has.")] = None
    resource: Annotated[list[str] | None, typer.Option(metavar="NAME=N", help="Anything else it has.")] = None
    max_vms: Annotated[int | None, typer.Option(min=0, metavar="N", help="How many VMs it may carry.")] = None
    pool: Annotated[
        str | None, typer.Option(metavar="POOL", parser=words.pool_name, help='Its pool ("-" is the pool "").')
    ] = None
    address: Annotated[str | None, typer.Option(metavar="IP", help="Its address.")] = None
    zone: Annotated[str | None, typer.Option(metavar="ZONE", help="Its zone.")] = None
    rack: Annotated[str | None, typer.Option(metavar="RACK", help="Its rack.")] = None
    model: Annotated[str | None, typer.Option(metavar="TEXT", help="What machine it is.")] = None
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label; may be repeated.")] = None
    dedicated: Annotated[bool, typer.Option("--dedicated", help="It is a dedicated host.")] = False
    overcommit: Ratios = None
    reserved: Annotated[
        list[str] | None, typer.Option(metavar="NAME=AMOUNT", help="Held back, such as memory=8GiB.")
    ] = None


def host_of(options: HostOptions, name: str) -> dict[str, object]:
    """What the API takes. What was not said is left out, so that the server's defaults hold."""
    capacity = {
        "cpu": words.cores(options.cpu),
        "memory": words.memory(options.memory),
        "disk": options.disk and words.disk(options.disk),
        "gpu": options.gpu,
        "vms": options.max_vms,
        **words.amounts(options.resource, "--resource"),
    }
    said = {
        "name": name,
        "pool": options.pool,
        "address": options.address,
        "capacity": {dimension: amount for dimension, amount in capacity.items() if amount is not None},
        "overcommit": words.ratios(options.overcommit, "--overcommit") or None,
        "reserved": words.amounts(options.reserved, "--reserved") or None,
        "labels": words.key_values(options.label, "--label") or None,
        "zone": options.zone,
        "rack": options.rack,
        "model": options.model,
        "dedicated": options.dedicated or None,
    }
    return {key: value for key, value in said.items() if value is not None}


@noun(add, "host")
@takes(HostOptions)
def add_host(ctx: typer.Context, name: Name, options: HostOptions, output_format: Output = Format.TABLE) -> int:
    """Register a host."""
    with connect(ctx) as client:
        host = client.hosts.create(host_of(options, name))
        text = f"{host.name} registered in pool {words.say_pool(host.pool)}: {words.say_all(host.allocatable)}"
        output.show_one(host, output_format, lambda _: iter([text]), host.name)
    return Exit.OK


@noun(delete, "host")
def delete_hosts(ctx: typer.Context, names: Names) -> int:
    """Forget hosts that carry nothing."""
    with connect(ctx) as client:

        def forget(name: str) -> None:
            client.hosts.delete(name)
            output.show([f"{name} deleted"])

        return try_each(names, forget)


def cordon(ctx: typer.Context, names: Names) -> int:
    """Hosts take no new VMs; what is on them stays."""
    with connect(ctx) as client:

        def close(name: str) -> None:
            host = client.hosts.cordon(name)
            output.show([f"{host.name} cordoned; {words.plural(host.instances, 'VM')} on it"])

        return try_each(names, close)


def uncordon(ctx: typer.Context, names: Names) -> int:
    """Hosts take new VMs again."""
    with connect(ctx) as client:

        def reopen(name: str) -> None:
            output.show([f"{client.hosts.uncordon(name).name} takes VMs again"])

        return try_each(names, reopen)
