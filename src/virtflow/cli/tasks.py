"""Tasks: get, describe, cancel."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output, words
from virtflow.cli.connect import connect
from virtflow.cli.exits import Exit, try_each
from virtflow.cli.options import Format, Limit, OfPool, Output, Watch
from virtflow.cli.reading import read_list
from virtflow.cli.refusal import draw_explanation
from virtflow.cli.screen import Screen
from virtflow.cli.table import Column, draw_facts, draw_table
from virtflow.cli.verbs import describe, get, noun

if TYPE_CHECKING:
    from virtflow.client.records import Step, Task

Ids = Annotated[list[str], typer.Argument(metavar="TASK...", show_default=False)]
MaybeIds = Annotated[list[str] | None, typer.Argument(metavar="[TASK]...", show_default=False)]
STYLES = {"completed": "green", "failed": "red", "cancelled": "dim", "queued": "yellow", "processing": "cyan"}


def columns(screen: Screen) -> "list[Column[Task]]":
    return [
        Column("TASK", lambda task: task.task_id, is_needed=True),
        Column("STATE", lambda task: task.state, is_needed=True, style=lambda task: STYLES.get(task.state, "")),
        Column("HOST", lambda task: task.host or "", is_needed=True),
        Column("AGE", lambda task: words.say_age(task.accepted_at, screen.now), is_number=True),
        Column("POOL", lambda task: words.say_pool(task.pool)),
        Column("TRIES", lambda task: str(task.attempts or ""), is_number=True),
        Column("VM", lambda task: task.vm),
        Column("TOOK", _took, is_wide=True, is_number=True),
        Column("RESOURCES", lambda task: words.say_all(task.resources), is_wide=True),
        Column("STRATEGY", lambda task: task.strategy, is_wide=True),
        Column("PRIORITY", lambda task: str(task.priority or ""), is_wide=True, is_number=True),
        Column("REASON", lambda task: task.reason or "", is_wide=True),
    ]


def _took(task: "Task") -> str:
    if task.duration_ms is None:
        return ""
    return f"{task.duration_ms:.0f}ms" if task.duration_ms < 10_000 else words.say_duration(task.duration_ms / 1000)


@noun(get, "tasks")
def get_tasks(
    ctx: typer.Context,
    ids: MaybeIds = None,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="queued, processing, completed, failed or cancelled; may be repeated."),
    ] = None,
    pool: OfPool = None,
    limit: Limit = None,
    watch: Watch = False,
    output_format: Output = Format.TABLE,
) -> int:
    """List requests and what became of them."""
    with connect(ctx) as client:
        return read_list(
            client,
            ids,
            find=client.tasks.get,
            find_all=lambda: client.tasks.list(
                states=state or (), pool=pool, limit=output.limit_for(output_format, limit)
            ),
            columns=columns,
            name=lambda task: task.task_id,
            kind="tasks",
            events=("task.",),
            watch=watch,
            output_format=output_format,
        )


@noun(describe, "task")
def describe_task(
    ctx: typer.Context,
    task_id: Annotated[str, typer.Argument(metavar="TASK")],
    output_format: Output = Format.TABLE,
) -> int:
    """Everything about a request: its history, and why it waits or failed."""
    with connect(ctx) as client:
        task = client.tasks.get(task_id)
        output.show_one(task, output_format, lambda screen: draw_task(task, screen), task.task_id)
    return Exit.OK


def draw_task(task: "Task", screen: Screen) -> Iterator[str]:
    facts = [
        ("task", task.task_id),
        ("state", task.state),
        ("reason", task.reason or ""),
        ("vm", task.vm),
        ("host", f"{task.host} ({task.address})" if task.host and task.address else task.host or ""),
        ("pool", words.say_pool(task.pool)),
        ("resources", words.say_all(task.resources)),
        ("dedicated", task.dedicated),
        ("labels", words.say_labels(task.labels)),
        ("zone", task.zone),
        ("strategy", task.strategy),
        ("weights", words.say_ratios(task.weights)),
        ("priority", str(task.priority or "")),
        ("without room", {"fail": "gives up", "wait": "waits"}.get(task.when_unplaceable, "")),
        ("tries", str(task.attempts or "")),
        ("accepted", words.say_time(task.accepted_at, screen.now)),
        ("deadline", f"{task.deadline_at:%Y-%m-%d %H:%M:%SZ}" if task.deadline_at else ""),
        ("ended", words.say_time(task.ended_at, screen.now)),
        ("took", _took(task)),
    ]
    yield from draw_facts(facts, screen)
    if task.history:
        yield ""
        yield from draw_table(list(task.history), _history_columns(), screen)
    if task.explanation is not None:
        yield ""
        yield from draw_explanation(task.explanation, task.document, screen, exists=not task.is_over)


def _history_columns() -> "list[Column[Step]]":
    return [
        Column("AT", lambda step: f"{step.at:%H:%M:%S.%f}"[:-3] if step.at else "", is_needed=True),
        Column("STATE", lambda step: step.state, is_needed=True, style=lambda step: STYLES.get(step.state, "")),
        Column("NOTE", lambda step: step.note, is_needed=True, is_prose=True),
    ]


def cancel(ctx: typer.Context, tasks: Ids) -> int:
    """Cancel requests that still wait."""
    with connect(ctx) as client:

        def stop(task_id: str) -> None:
            output.show([f"{client.tasks.cancel(task_id).task_id} cancelled"])

        return try_each(tasks, stop)
