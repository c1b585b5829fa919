"""explain: why here, why not, and what would help; nothing is written."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output, words
from virtflow.cli.connect import connect
from virtflow.cli.exits import Exit, UsageError
from virtflow.cli.options import Format, OrderOptions, Output, takes
from virtflow.cli.order import Order, command
from virtflow.cli.refusal import draw_explanation
from virtflow.cli.screen import Screen, screen_of
from virtflow.cli.table import Column, draw_table

if TYPE_CHECKING:
    from virtflow.client import Client
    from virtflow.client.records import Candidate, Preview, Task, Vm

ORDERS_MAX = 10_000


@takes(OrderOptions)
def explain(
    ctx: typer.Context,
    options: OrderOptions,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME | vm NAME | task ID]", show_default=False, help="A VM to be, or one that waits."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="A list of VMs; each sees the room the former took."),
    ] = None,
    runners_up: Annotated[int, typer.Option(min=0, max=20, metavar="N", help="How many next best hosts to show.")] = 3,
    output_format: Output = Format.TABLE,
) -> int:
    """Say where a VM would go and why, or why not and what would help. Nothing is written.

    `virtflow explain vm NAME` and `virtflow explain task ID` do it for one that waits or has failed.
    """
    from virtflow.cli.place import orders_of

    names = what or []
    with connect(ctx) as client:
        if len(names) == 2 and names[0] in {"vm", "task"}:
            return _explain_existing(client, *names, output_format=output_format)
        if len(names) > 1:
            raise UsageError("one name at a time", remedy="or: virtflow explain vm NAME, virtflow explain task ID")
        orders = orders_of(options, names[0] if names else None, file)
        return explain_orders(client, orders, runners_up=runners_up, output_format=output_format)


def explain_orders(client: "Client", orders: Sequence[Order], *, runners_up: int, output_format: Format) -> Exit:
    if len(orders) == 1:
        preview = client.placements.explain(orders[0], runners_up=runners_up)
        return _show(preview, orders[0], output_format)
    if len(orders) > ORDERS_MAX:
        raise UsageError(f"at most {ORDERS_MAX:,} at once can be explained, not {len(orders):,}")
    previews = client.placements.explain_many(orders)
    output.show_one(
        previews, output_format, lambda screen: _draw_many(previews.items, orders, screen), str(previews.placeable)
    )
    return Exit.OK if not previews.refused else Exit.NO_ROOM


def _show(preview: "Preview", order: Order, output_format: Format) -> Exit:
    name = preview.winner.host or "" if preview.winner else ""
    output.show_one(preview, output_format, lambda screen: draw_preview(preview, order, screen), name)
    return Exit.OK if preview.placeable else Exit.NO_ROOM


def draw_preview(preview: "Preview", order: Order, screen: Screen) -> Iterator[str]:
    subject = str(order.get("name") or "It")
    if preview.winner is None:
        yield screen.paint(f"{subject} does not fit.", "bold")
        if preview.explanation:
            yield from draw_explanation(preview.explanation, order, screen, exists=False)
        return
    host = preview.winner.host or "a host"
    yield screen.paint(f"{subject} fits: {host} is the best of {preview.hosts_possible} possible hosts.", "bold")
    yield from screen.wrap(f"By {preview.strategy}: the lowest score wins, then fewer instances, then the name.")
    yield ""
    candidates = [preview.winner, *preview.runners_up]
    yield from draw_table(candidates, _candidate_columns(preview.winner), screen)
    yield ""
    yield f"place it: {screen.paint(command('place', order), 'cyan')}"


def _candidate_columns(winner: "Candidate") -> "list[Column[Candidate]]":
    def part(number: int, name: str, weight: float) -> "Column[Candidate]":
        title = name if weight == 1 else f"{weight:g}×{name}"
        return Column(
            title, lambda each: f"{each.parts[number].value:.4g}" if number < len(each.parts) else "", is_number=True
        )

    return [
        Column(
            "HOST", lambda each: each.host or "?", is_needed=True, style=lambda each: "green" if each is winner else ""
        ),
        Column("SCORE", lambda each: f"{each.score:.6g}", is_needed=True, is_number=True),
        *(part(number, each.name, each.weight) for number, each in enumerate(winner.parts)),
        Column("VMS", lambda each: str(each.instances), is_number=True),
        Column("FREE", lambda each: words.say_all(each.free)),
    ]


def _draw_many(previews: "Sequence[Preview]", orders: Sequence[Order], screen: Screen) -> Iterator[str]:
    names = [str(order.get("name") or f"item {number}") for number, order in enumerate(orders, 1)]
    table: list[Column[tuple[str, Preview]]] = [
        Column("NAME", lambda row: row[0], is_needed=True),
        Column("HOST", lambda row: (row[1].winner.host or "?") if row[1].winner else "-", is_needed=True),
        Column("SCORE", lambda row: f"{row[1].winner.score:.6g}" if row[1].winner else "", is_number=True),
        Column(
            "WHY NOT", lambda row: row[1].explanation.text if row[1].explanation else "", is_needed=True, is_prose=True
        ),
    ]
    yield from draw_table(list(zip(names, previews, strict=False)), table, screen)
    fitting = sum(each.placeable for each in previews)
    yield f"{fitting:,} of {len(previews):,} fit, one after the other"


def _explain_existing(client: "Client", kind: str, name: str, *, output_format: Format) -> Exit:
    found: Vm | Task = client.vms.get(name) if kind == "vm" else client.tasks.get(name)
    exists = kind == "vm" or found.host is not None
    if output_format in {Format.JSON, Format.YAML}:
        write = output.as_json if output_format is Format.JSON else output.as_yaml
        output.show([write(found.document.get("explanation")).rstrip()])
    elif found.explanation is not None:
        output.show(draw_explanation(found.explanation, found.document, screen_of(), exists=exists))
    else:
        output.show([f"{name} {f'is on {found.host}' if found.host else 'was not refused by any host'}"])
    return Exit.OK
