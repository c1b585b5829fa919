"""VMs: get, describe, delete. Placing them is place.py's."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output, words
from virtflow.cli.connect import connect
from virtflow.cli.exits import Exit, UsageError
from virtflow.cli.options import Format, Limit, OfPool, Output, Watch, Yes
from virtflow.cli.reading import read_list
from virtflow.cli.refusal import draw_explanation
from virtflow.cli.screen import Screen
from virtflow.cli.table import Column, draw_facts
from virtflow.cli.verbs import delete, describe, get, noun

if TYPE_CHECKING:
    from virtflow.client import Client
    from virtflow.client.records import Vm

MaybeNames = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", show_default=False)]
OfHost = Annotated[str | None, typer.Option("--host", metavar="HOST", help="Only on this host.")]
OfStatus = Annotated[
    str | None, typer.Option("--status", metavar="STATUS", help="pending, running, failed or unknown.")
]
Placed = Annotated[
    bool | None, typer.Option("--placed/--pending", help="Only those with a host, or those that wait for one.")
]
DELETED_AT_ONCE = 10_000


def state(vm: "Vm") -> str:
    """As the API has it, but one that waits for a host is told from one that has its place."""
    return "placed" if vm.status == "pending" and vm.is_placed else vm.status


STYLES = {"placed": "green", "running": "green", "pending": "yellow", "failed": "red", "unknown": "magenta"}


def columns(screen: Screen) -> "list[Column[Vm]]":
    return [
        Column("NAME", lambda vm: vm.name, is_needed=True),
        Column("STATUS", state, is_needed=True, style=lambda vm: STYLES.get(state(vm), "")),
        Column("HOST", lambda vm: vm.host or "", is_needed=True),
        Column("POOL", lambda vm: words.say_pool(vm.pool)),
        *_size_columns(),
        Column("AGE", lambda vm: words.say_age(vm.created_at, screen.now), is_number=True),
        Column("DISK", lambda vm: _amount(vm, "disk"), is_wide=True, is_number=True),
        Column("OTHER", _others, is_wide=True),
        Column("ADDRESS", lambda vm: vm.address or "", is_wide=True),
        Column("ZONE", lambda vm: vm.zone, is_wide=True),
        Column("DEDICATED", lambda vm: vm.dedicated if vm.dedicated != "allowed" else "", is_wide=True),
        Column("STRATEGY", lambda vm: vm.strategy, is_wide=True),
        Column("LABELS", lambda vm: words.say_labels(vm.labels), is_wide=True),
        Column("TASK", lambda vm: vm.task_id, is_wide=True),
    ]


def _size_columns() -> "list[Column[Vm]]":
    return [
        Column("CPU", lambda vm: _amount(vm, "cpu"), is_number=True),
        Column("MEMORY", lambda vm: _amount(vm, "memory"), is_number=True),
        Column("GPU", lambda vm: _amount(vm, "gpu"), is_number=True),
    ]


def _amount(vm: "Vm", dimension: str) -> str:
    return words.say(dimension, vm.resources[dimension]) if vm.resources.get(dimension) else ""


def _others(vm: "Vm") -> str:
    return words.say_all(vm.resources, without=("cpu", "memory", "disk", "gpu", "vms"))


@noun(get, "vms")
def get_vms(
    ctx: typer.Context,
    names: MaybeNames = None,
    pool: OfPool = None,
    host: OfHost = None,
    status: OfStatus = None,
    placed: Placed = None,
    limit: Limit = None,
    watch: Watch = False,
    output_format: Output = Format.TABLE,
) -> int:
    """List VMs and where they are."""
    with connect(ctx) as client:
        return read_list(
            client,
            names,
            find=client.vms.get,
            find_all=lambda: client.vms.list(
                pool=pool, host=host, status=status, placed=placed, limit=output.limit_for(output_format, limit)
            ),
            columns=columns,
            name=lambda vm: vm.name,
            kind="VMs",
            events=("task.", "vm."),
            watch=watch,
            output_format=output_format,
        )


@noun(describe, "vm")
def describe_vm(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name or id.")],
    output_format: Output = Format.TABLE,
) -> int:
    """Everything about a VM; one that waits says why, and what would help."""
    with connect(ctx) as client:
        vm = client.vms.get(name)
        output.show_one(vm, output_format, lambda screen: draw_vm(vm, screen), vm.name)
    return Exit.OK


def draw_vm(vm: "Vm", screen: Screen) -> Iterator[str]:
    facts = [
        ("vm", vm.name),
        ("status", state(vm)),
        ("host", f"{vm.host} ({vm.address})" if vm.host and vm.address else vm.host or ""),
        ("placed", words.say_time(vm.placed_at, screen.now)),
        ("pool", words.say_pool(vm.pool)),
        ("resources", words.say_all(vm.resources)),
        ("dedicated", vm.dedicated),
        ("labels", words.say_labels(vm.labels)),
        ("zone", vm.zone),
        ("strategy", vm.strategy),
        ("conditions", ", ".join(f"{each.type} {'yes' if each.state else 'no'}" for each in vm.conditions)),
        ("task", vm.task_id),
        ("id", vm.id if vm.id != vm.task_id else ""),
        ("created", words.say_time(vm.created_at, screen.now)),
        ("version", f"{vm.version}, generation {vm.generation}"),
    ]
    yield from draw_facts(facts, screen)
    if vm.explanation is not None:
        yield ""
        yield from draw_explanation(vm.explanation, vm.document, screen, exists=True)


@noun(delete, "vm")
def delete_vms(
    ctx: typer.Context,
    names: MaybeNames = None,
    everything: Annotated[bool, typer.Option("--all", help="All, or all that the filters choose.")] = False,
    pool: OfPool = None,
    host: OfHost = None,
    status: OfStatus = None,
    placed: Placed = None,
    yes: Yes = False,
) -> int:
    """Delete VMs by name, or all that match; their room is free again."""
    has_filter = any(value is not None for value in (pool, host, status, placed))
    if bool(names) == everything or (names and has_filter):
        raise UsageError("name the VMs, or say --all with the filters that choose them")
    with connect(ctx) as client:
        if names and len(names) == 1:
            client.vms.delete(names[0])
            output.show([f"{names[0]} deleted"])
            return Exit.OK
        chosen = names or [vm.name for vm in client.vms.list(pool=pool, host=host, status=status, placed=placed)]
        if not chosen:
            output.say("No VMs.")
            return Exit.OK
        if everything and not yes:
            of = f" of pool {words.say_pool(pool)}" if pool is not None else ""
            typer.confirm(f"Delete {words.plural(len(chosen), 'VM')}{of}?", abort=True, err=True)
        return _delete_many(client, chosen)


def _delete_many(client: "Client", names: list[str]) -> Exit:
    """In pieces of the largest size that the server takes; what was absent is named."""
    left, deleted, absent = iter(names), 0, list[str]()
    while piece := list(islice(left, DELETED_AT_ONCE)):
        result = client.vms.delete_many(piece)
        deleted += result.deleted
        absent += result.absent
    output.show([f"{words.plural(deleted, 'VM')} deleted"])
    for name in absent:
        output.say(f"virtflow: no VM {name}")
    return Exit.NOT_FOUND if absent else Exit.OK
