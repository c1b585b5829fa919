"""Processes: get."""

from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output, words
from virtflow.cli.connect import connect
from virtflow.cli.exits import CommandError, Exit
from virtflow.cli.options import Format, Output
from virtflow.cli.screen import Screen, screen_of
from virtflow.cli.table import Column
from virtflow.cli.verbs import get, noun

if TYPE_CHECKING:
    from virtflow.client.records import Process


def columns(screen: Screen) -> "list[Column[Process]]":
    return [
        Column("PROCESS", lambda each: each.id, is_needed=True),
        Column("STATE", lambda each: each.state, style=lambda each: "" if each.state == "here" else "yellow"),
        Column("HEALTH", lambda each: each.health or "", style=health_style),
        Column("ROLES", lambda each: ",".join(each.roles)),
        Column("LEADS", leads, style=lambda _: "green"),
        Column("AGE", lambda each: words.say_age(each.started_at, screen.now), is_number=True),
        Column("NODE", lambda each: each.node, is_wide=True),
        Column("ADDRESS", lambda each: each.address, is_wide=True),
        Column("VERSION", lambda each: each.version, is_wide=True),
        Column("TERMS", lambda each: ",".join(f"{held.office}={held.term}" for held in each.offices), is_wide=True),
        Column("SEEN", lambda each: words.say_age(each.seen_at, screen.now), is_wide=True, is_number=True),
        Column("UNWELL", unwell, is_wide=True),
    ]


def health_style(process: "Process") -> str:
    return {"degraded": "yellow", "failing": "red"}.get(process.health or "", "")


def unwell(process: "Process") -> str:
    return "; ".join(f"{one.part}: {one.cause}" for one in process.unwell)


def leads(process: "Process") -> str:
    return ",".join(held.office for held in process.offices)


@noun(get, "processes")
def get_processes(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[PROCESS]...", show_default=False)] = None,
    output_format: Output = Format.TABLE,
) -> int:
    """List the processes that share the database: what each does, and who leads."""
    with connect(ctx) as client:
        known = list(client.processes())
    unknown = sorted(set(names or ()) - {each.id for each in known})
    if unknown:
        raise CommandError(
            f"no process {unknown[0]!r}", remedy="virtflow get processes lists them", exit_code=Exit.NOT_FOUND
        )
    chosen = [each for each in known if not names or each.id in names]
    output.show_list(chosen, columns(screen_of()), lambda each: each.id, output=output_format, kind="processes")
    return Exit.OK
