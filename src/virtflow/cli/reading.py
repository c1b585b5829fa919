"""`get` for every noun: some by name or all by filter, once or again and again."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from virtflow.cli import output
from virtflow.cli.exits import Exit, UsageError, try_each
from virtflow.cli.options import Format
from virtflow.cli.screen import Screen, screen_of
from virtflow.cli.table import Column

if TYPE_CHECKING:
    from virtflow.client import Client
    from virtflow.client.pages import Pages
    from virtflow.client.records import Record

R = TypeVar("R", bound="Record")


def read_list(
    client: "Client",
    names: Sequence[str] | None,
    *,
    find: Callable[[str], R],
    find_all: "Callable[[], Pages[R]]",
    columns: Callable[[Screen], list[Column[R]]],
    name: Callable[[R], str],
    kind: str,
    events: Sequence[str],
    watch: bool,
    output_format: Format,
) -> int:
    def once() -> Exit:
        found: list[R] = []
        worst = try_each(names or (), lambda wanted: found.append(find(wanted)))
        if names and not found:
            return worst
        output.show_list(found if names else find_all(), columns(screen_of()), name, output=output_format, kind=kind)
        return worst

    if not watch:
        return once()
    if output_format not in {Format.TABLE, Format.WIDE}:
        raise UsageError(
            "--watch draws tables", remedy=f"for programs there is `virtflow events --follow`, not -o {output_format}"
        )
    from virtflow.cli.watching import draw_on_events

    return draw_on_events(client, once, events)
