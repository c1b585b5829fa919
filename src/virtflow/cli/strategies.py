"""Strategies: get."""

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
    from virtflow.client.records import Strategy


def columns(_: Screen) -> "list[Column[Strategy]]":
    return [
        Column("STRATEGY", lambda each: each.name, is_needed=True),
        Column("DEFAULT", lambda each: "yes" if each.default else ""),
        Column("OPTIMISES", lambda each: each.optimises, is_prose=True),
        Column("FORMULA", lambda each: each.formula, is_wide=True),
        Column("WEIGHTS", lambda each: words.say_ratios(each.weights or {}), is_wide=True),
    ]


@noun(get, "strategies")
def get_strategies(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", show_default=False)] = None,
    output_format: Output = Format.TABLE,
) -> int:
    """List the ways to choose among hosts."""
    with connect(ctx) as client:
        known = list(client.strategies())
    unknown = sorted(set(names or ()) - {each.name for each in known})
    if unknown:
        all_names = ", ".join(each.name for each in known)
        raise CommandError(f"no strategy {unknown[0]!r}", remedy=f"there are {all_names}", exit_code=Exit.NOT_FOUND)
    chosen = [each for each in known if not names or each.name in names]
    output.show_list(chosen, columns(screen_of()), lambda each: each.name, output=output_format, kind="strategies")
    return Exit.OK
