"""events: what happened, and what happens."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output, words
from virtflow.cli.connect import connect
from virtflow.cli.exits import Exit
from virtflow.cli.options import Format, Output
from virtflow.cli.screen import Screen, harmless, screen_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from virtflow.client.records import Event

SHOWN, SHOWN_MAX = 20, 1_000_000


def events(
    ctx: typer.Context,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, over lost connections.")
    ] = False,
    after: Annotated[
        int | None, typer.Option(min=0, metavar="NUMBER", help="Begin after this event (default: the last 20).")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help='Only these: exact, or a beginning such as "task."; may be repeated.'
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="Only about one kind of thing: host, pool, task, vm, dead, outlet, leader or database."
        ),
    ] = None,
    id_: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Only of this host, pool, task or VM id.")
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Also which process wrote each; elections of a leader are among them.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="At most so many.")] = None,
    output_format: Output = Format.TABLE,
) -> int:
    """Show the last events, or follow them. JSON is written one event per line."""
    with connect(ctx) as client:
        start = after if after is not None else max(0, client.events.range().newest - (limit or SHOWN))
        if follow:
            found = client.events.follow(after=start, types=types or (), kind=kind, id=id_)
        else:
            found = client.events.list(after=start, types=types or (), kind=kind, id=id_, limit=limit or SHOWN_MAX)
        _write(islice(found, limit), output_format, with_process=cluster)
    return Exit.OK


def _write(found: "Iterable[Event]", output_format: Format, *, with_process: bool) -> None:
    import msgspec

    screen = screen_of()
    for event in found:
        match output_format:
            case Format.JSON:
                line = msgspec.json.encode(event.document).decode()
            case Format.YAML:
                line = "---\n" + output.as_yaml(event.document).rstrip()
            case Format.NAME:
                line = str(event.seq)
            case _:
                line = draw_event(event, screen, is_wide=output_format is Format.WIDE, with_process=with_process)
        # whoever follows through a pipe wants each when it happens
        print(harmless(line), flush=True)


STYLES = {
    "completed": "green",
    "failed": "red",
    "missing": "red",
    "cancelled": "dim",
    "deleted": "dim",
    "elected": "bold",
}


#: names of processes are cut to their end, which tells them apart
PROCESS_WIDTH = 20


def draw_event(event: "Event", screen: Screen, *, is_wide: bool = False, with_process: bool = False) -> str:
    at = f"{event.at:%H:%M:%S}" if event.at else ""
    style = STYLES.get(event.type.partition(".")[2], "")
    subject = event.vm or event.id or words.say_pool(event.pool)
    host = f"on {event.host}" if event.host and event.host != subject else ""
    more = [words.say_all(event.delta or {}), event.actor and f"by {event.actor}", event.id] if is_wide else []
    said = " ".join(part for part in (subject, host, event.text, *more) if part)
    process = f"  {event.origin[-PROCESS_WIDTH:]:<{PROCESS_WIDTH}}" if with_process else ""
    return f"{event.seq:>6}  {at}{process}  {screen.paint(event.type.ljust(15), style)}  {said}"
