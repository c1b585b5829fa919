"""Dead letters: list, requeue, delete."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output, words
from virtflow.cli.coercion import LightCommand, LightGroup
from virtflow.cli.connect import connect
from virtflow.cli.exits import Exit, UsageError, try_each
from virtflow.cli.options import Format, Limit, Output, Yes
from virtflow.cli.screen import Screen, screen_of
from virtflow.cli.table import Column

if TYPE_CHECKING:
    from virtflow.client import Client
    from virtflow.client.records import DeadLetter

dead = typer.Typer(
    cls=LightGroup,
    help="What failed for good: list it, send it again, delete it.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

Letters = Annotated[list[str] | None, typer.Argument(metavar="[LETTER]...", show_default=False)]
Everything = Annotated[bool, typer.Option("--all", help="All that nobody has sent again.")]
Kind = Annotated[str | None, typer.Option("--kind", metavar="WORD", help="Only task or message.")]


def columns(screen: Screen) -> "list[Column[DeadLetter]]":
    return [
        Column("LETTER", lambda letter: letter.id, is_needed=True),
        Column("KIND", lambda letter: letter.kind),
        Column("CODE", lambda letter: letter.code, is_needed=True),
        Column("AGE", lambda letter: words.say_age(letter.at, screen.now), is_number=True),
        Column("POOL", lambda letter: words.say_pool(letter.pool) if letter.tasks else ""),
        Column("VM", lambda letter: letter.vm),
        Column("TASKS", lambda letter: str(len(letter.tasks)) if len(letter.tasks) > 1 else "", is_number=True),
        Column("SENT AGAIN AS", _sent),
        Column("REASON", lambda letter: letter.reason, is_wide=True),
    ]


def _sent(letter: "DeadLetter") -> str:
    return letter.requeued_as or ("yes" if letter.requeued_at else "")


@dead.command("list", cls=LightCommand)
def list_letters(
    ctx: typer.Context,
    kind: Kind = None,
    everything: Annotated[bool, typer.Option("--all", help="Also those that were sent again.")] = False,
    limit: Limit = None,
    output_format: Output = Format.TABLE,
) -> int:
    """List dead letters, oldest first."""
    with connect(ctx) as client:
        letters = client.dead.list(kind=kind, with_requeued=everything, limit=output.limit_for(output_format, limit))
        output.show_list(
            letters, columns(screen_of()), lambda letter: letter.id, output=output_format, kind="dead letters"
        )
    return Exit.OK


@dead.command("requeue", cls=LightCommand)
def requeue_letters(
    ctx: typer.Context, letters: Letters = None, everything: Everything = False, kind: Kind = None, yes: Yes = False
) -> int:
    """Send them again, each once: a failed request becomes a new one of the same size and name."""
    with connect(ctx) as client:

        def send(letter_id: str) -> None:
            letter = client.dead.requeue(letter_id)
            output.show([f"{letter.id} sent again" + (f" as {letter.requeued_as}" if letter.requeued_as else "")])

        return _for_each(client, letters, send, question="Send {} again?", everything=everything, kind=kind, yes=yes)


@dead.command("delete", cls=LightCommand)
def delete_letters(
    ctx: typer.Context, letters: Letters = None, everything: Everything = False, kind: Kind = None, yes: Yes = False
) -> int:
    """Throw them away. What they tell of stays as it ended."""
    with connect(ctx) as client:

        def throw(letter_id: str) -> None:
            client.dead.delete(letter_id)
            output.show([f"{letter_id} deleted"])

        return _for_each(client, letters, throw, question="Delete {}?", everything=everything, kind=kind, yes=yes)


def _for_each(
    client: "Client",
    letters: list[str] | None,
    act: Callable[[str], None],
    *,
    question: str,
    everything: bool,
    kind: str | None,
    yes: bool,
) -> int:
    if bool(letters) == everything or (letters and kind):
        raise UsageError("name the letters, or say --all", remedy="see: virtflow dead list")
    chosen = letters or [letter.id for letter in client.dead.list(kind=kind)]
    if not chosen:
        output.say("No dead letters.")
        return Exit.OK
    if everything and not yes:
        typer.confirm(question.format(words.plural(len(chosen), "dead letter")), abort=True, err=True)
    return try_each(chosen, act)
