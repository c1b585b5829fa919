"""webhooks: who is told of events, and what became of each message."""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from virtflow.cli import output, words
from virtflow.cli.coercion import LightCommand, LightGroup
from virtflow.cli.connect import connect
from virtflow.cli.exits import CommandError, Exit, UsageError, try_each
from virtflow.cli.options import Format, Limit, Output
from virtflow.cli.screen import Screen, screen_of
from virtflow.cli.table import Column, draw_facts

if TYPE_CHECKING:
    from virtflow.client.records import Delivery, Webhook

group = typer.Typer(
    cls=LightGroup,
    help="Who is told of events by HTTP, and how that went.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="WEBHOOK")]
Names = Annotated[list[str], typer.Argument(metavar="WEBHOOK...", show_default=False)]
Line = Annotated[str, typer.Argument(metavar="WEBHOOK", help='"-" are the callbacks of tasks.')]
Events = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="TYPE", help='Only these: exact, or a beginning such as "task."; may be repeated.'),
]
#: other users of a machine can read its command lines
SecretVariable = Annotated[
    str | None,
    typer.Option("--secret-from", metavar="VARIABLE", help="The environment variable that holds a secret of your own."),
]
STYLES = {"active": "green", "failing": "yellow", "disabled": "dim", "delivered": "green", "dead": "red"}

C = TypeVar("C", bound=Callable[..., Any])


def _command(name: str) -> Callable[[C], C]:
    return group.command(name, cls=LightCommand)


def _secret(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not (text := os.environ.get(variable)):
        raise UsageError(f"{variable} is not set in the environment", remedy="export it with a secret: whsec_…")
    return text


def columns(screen: Screen) -> "list[Column[Webhook]]":
    return [
        Column("WEBHOOK", lambda one: one.name, is_needed=True),
        Column("STATE", lambda one: one.state, is_needed=True, style=lambda one: STYLES.get(one.state, "")),
        Column("WAITING", lambda one: str(one.waiting or ""), is_number=True),
        Column("DEAD", lambda one: str(one.dead or ""), is_number=True),
        Column("URL", lambda one: one.url),
        Column("EVENTS", lambda one: ",".join(one.events) or "all"),
        Column("AGE", lambda one: words.say_age(one.created_at, screen.now), is_wide=True, is_number=True),
        Column("CURSOR", lambda one: str(one.cursor), is_wide=True, is_number=True),
        Column("REASON", lambda one: one.reason, is_wide=True),
    ]


def draw_webhook(webhook: "Webhook", screen: Screen) -> Iterator[str]:
    facts = [
        ("webhook", webhook.name),
        ("url", webhook.url),
        ("description", webhook.description),
        ("events", ", ".join(webhook.events) or "all"),
        ("state", webhook.state),
        ("reason", webhook.reason),
        ("failing since", words.say_time(webhook.failing_since, screen.now)),
        ("told up to", f"event {webhook.cursor}"),
        ("waiting", str(webhook.waiting or "")),
        ("dead", str(webhook.dead or "")),
        ("overlap until", f"{webhook.overlap_until:%Y-%m-%d %H:%M:%SZ}" if webhook.overlap_until else ""),
        ("version", str(webhook.version)),
        ("created", words.say_time(webhook.created_at, screen.now)),
        ("secret", webhook.secret),
    ]
    yield from draw_facts(facts, screen)
    if webhook.secret:
        yield ""
        yield "The secret is not shown again."


def _show(webhook: "Webhook", output_format: Format) -> int:
    output.show_one(webhook, output_format, lambda screen: draw_webhook(webhook, screen), webhook.name)
    return Exit.OK


@_command("create")
def create(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where messages are sent by POST.")],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What to call it.")] = None,
    events: Events = None,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="What it is for.")] = None,
    after: Annotated[
        int | None, typer.Option(min=0, metavar="NUMBER", help="Tell it of all events after this one too.")
    ] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Tell it of nothing yet.")] = False,
    secret_from: SecretVariable = None,
    output_format: Output = Format.TABLE,
) -> int:
    """Have events sent somewhere; shows the secret that signs them, this once."""
    said = {
        "url": url,
        "name": name,
        "events": events,
        "description": description,
        "after": after,
        "enabled": False if disabled else None,
        "secret": _secret(secret_from),
    }
    with connect(ctx) as client:
        return _show(client.webhooks.create({k: v for k, v in said.items() if v is not None}), output_format)


@_command("list")
def list_(ctx: typer.Context, limit: Limit = None, output_format: Output = Format.TABLE) -> int:
    """List webhooks."""
    with connect(ctx) as client:
        found = client.webhooks.list(limit=output.limit_for(output_format, limit))
        output.show_list(found, columns(screen_of()), lambda one: one.name, output=output_format, kind="webhooks")
    return Exit.OK


@_command("get")
def get(ctx: typer.Context, name: Name, output_format: Output = Format.TABLE) -> int:
    """Everything about one webhook but its secret."""
    with connect(ctx) as client:
        return _show(client.webhooks.get(name), output_format)


@_command("update")
def update(
    ctx: typer.Context,
    name: Name,
    url: Annotated[str | None, typer.Option(metavar="URL", help="Where messages are sent.")] = None,
    events: Events = None,
    all_events: Annotated[bool, typer.Option("--all-events", help="Tell it of everything.")] = False,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="What it is for.")] = None,
    output_format: Output = Format.TABLE,
) -> int:
    """Change where a webhook goes, or of what it is told."""
    said = {"url": url, "events": [] if all_events else events, "description": description}
    changes = {key: value for key, value in said.items() if value is not None}
    if not changes:
        raise UsageError("nothing to change", remedy="say --url, --event, --all-events or --description")
    with connect(ctx) as client:
        return _show(client.webhooks.change(name, changes), output_format)


@_command("delete")
def delete(ctx: typer.Context, names: Names) -> int:
    """Forget webhooks, with what waits for them."""
    with connect(ctx) as client:

        def forget(name: str) -> None:
            client.webhooks.delete(name)
            output.show([f"{name} deleted"])

        return try_each(names, forget)


@_command("enable")
def enable(ctx: typer.Context, names: Names) -> int:
    """Send again, from where it stopped."""
    with connect(ctx) as client:

        def switch(name: str) -> None:
            output.show([f"{client.webhooks.enable(name).name} enabled"])

        return try_each(names, switch)


@_command("disable")
def disable(ctx: typer.Context, names: Names) -> int:
    """Send nothing any more."""
    with connect(ctx) as client:

        def switch(name: str) -> None:
            output.show([f"{client.webhooks.disable(name).name} disabled"])

        return try_each(names, switch)


@_command("rotate")
def rotate(
    ctx: typer.Context,
    name: Name,
    overlap: Annotated[
        int | None,
        typer.Option(min=0, metavar="SECONDS", help="So long the former secret signs too (default: a day)."),
    ] = None,
    secret_from: SecretVariable = None,
    output_format: Output = Format.TABLE,
) -> int:
    """Sign with a new secret; shows it this once."""
    with connect(ctx) as client:
        return _show(client.webhooks.rotate(name, overlap_s=overlap, secret=_secret(secret_from)), output_format)


@_command("test")
def try_out(ctx: typer.Context, name: Name, output_format: Output = Format.TABLE) -> int:
    """Send a message now, and say how that went."""
    with connect(ctx) as client:
        delivery = client.webhooks.test(name)
    if output_format is not Format.TABLE:
        output.show_one(delivery, output_format, lambda _: iter(()), delivery.id)
    elif delivery.state == "delivered":
        output.show([f"{name} took it: {delivery.status} after {delivery.duration_ms} ms"])
    if delivery.state != "delivered":
        answered = f", it answered {delivery.status}" if delivery.status else ""
        raise CommandError(
            f"{name} did not take it: {delivery.code}{answered}", remedy="docs/webhooks.md says what each code means"
        )
    return Exit.OK


@_command("deliveries")
def deliveries(
    ctx: typer.Context,
    name: Line,
    state: Annotated[str | None, typer.Option(metavar="STATE", help="Only these: waiting, delivered or dead.")] = None,
    limit: Limit = None,
    output_format: Output = Format.TABLE,
) -> int:
    """What was sent to a webhook, the newest first."""
    with connect(ctx) as client:
        found = client.webhooks.deliveries(name, state=state, limit=output.limit_for(output_format, limit))
        output.show_list(
            found, delivery_columns(screen_of()), lambda one: one.id, output=output_format, kind="deliveries"
        )
    return Exit.OK


def delivery_columns(screen: Screen) -> "list[Column[Delivery]]":
    return [
        Column("DELIVERY", lambda one: one.id, is_needed=True),
        Column("STATE", lambda one: one.state, is_needed=True, style=lambda one: STYLES.get(one.state, "")),
        Column("SEQ", lambda one: str(one.seq or ""), is_number=True),
        Column("TYPE", lambda one: one.type),
        Column("TRIES", lambda one: str(one.tries or ""), is_number=True),
        Column("STATUS", lambda one: str(one.status or ""), is_number=True),
        Column("CODE", lambda one: one.code),
        Column("AGE", lambda one: words.say_age(one.created_at, screen.now), is_number=True),
        Column("SUBJECT", lambda one: one.subject, is_wide=True),
        Column("TOOK", lambda one: f"{one.duration_ms}ms", is_wide=True, is_number=True),
    ]


@_command("redeliver")
def redeliver(
    ctx: typer.Context,
    name: Line,
    ids: Annotated[list[str], typer.Argument(metavar="DELIVERY...", show_default=False)],
) -> int:
    """Send messages once more, as if they were new."""
    with connect(ctx) as client:

        def again(delivery_id: str) -> None:
            output.show([f"{client.webhooks.redeliver(name, delivery_id).id} waits to be sent"])

        return try_each(ids, again)


@_command("replay")
def replay(
    ctx: typer.Context,
    name: Name,
    after: Annotated[int, typer.Option(min=0, metavar="NUMBER", help="All events after this one are sent once more.")],
) -> int:
    """Send events once more, from a number on."""
    with connect(ctx) as client:
        client.webhooks.replay(name, after=after)
        output.show([f"{name} is told again of all events after {after}"])
    return Exit.OK
