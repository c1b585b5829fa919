"""Outlets: get."""

from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output, words
from virtflow.cli.connect import connect
from virtflow.cli.options import Format, Limit, Output, Watch
from virtflow.cli.reading import read_list
from virtflow.cli.screen import Screen
from virtflow.cli.table import Column
from virtflow.cli.verbs import get, noun

if TYPE_CHECKING:
    from virtflow.client.records import Outlet

STYLES = {"failing": "red", "disabled": "dim"}


def columns(screen: Screen) -> "list[Column[Outlet]]":
    return [
        Column("OUTLET", lambda each: each.name, is_needed=True),
        Column("KIND", lambda each: each.kind),
        Column("STATE", lambda each: each.state, style=lambda each: STYLES.get(each.state, "")),
        Column("SINCE", lambda each: words.say_age(each.failing_since, screen.now)),
        Column("BEHIND", lambda each: str(each.behind), is_number=True),
        Column("LAG", lambda each: words.say_duration(each.behind_s) if each.behind else ""),
        Column("TOLD", lambda each: str(each.cursor), is_wide=True, is_number=True),
        Column("ERROR", lambda each: each.error, is_prose=True),
    ]


@noun(get, "outlets")
def get_outlets(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[OUTLET]...", show_default=False)] = None,
    limit: Limit = None,
    watch: Watch = False,
    output_format: Output = Format.TABLE,
) -> int:
    """List who is told of events (buses, webhooks), and how far."""
    with connect(ctx) as client:
        return read_list(
            client,
            names or [],
            find=client.outlets.get,
            find_all=lambda: client.outlets.list(limit=output.limit_for(output_format, limit)),
            columns=columns,
            name=lambda outlet: outlet.name,
            kind="outlets",
            events=(),
            watch=watch,
            output_format=output_format,
        )
