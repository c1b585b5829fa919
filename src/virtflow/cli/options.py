"""Options that several commands share, each said once."""

import dataclasses
import enum
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from virtflow.cli.connect import OUTPUT_VARIABLE
from virtflow.cli.words import pool_name


class Format(enum.StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class DedicatedWord(enum.StrEnum):
    REQUIRED = "required"
    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"


Output = Annotated[
    Format,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        envvar=OUTPUT_VARIABLE,
        help="table, wide, json, yaml or name (one name per line).",
    ),
]
Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="At most so many.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Draw it again whenever something changes.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
OfPool = Annotated[
    str | None, typer.Option("--pool", metavar="POOL", parser=pool_name, help='Only of this pool ("-" is the pool "").')
]
OfLabel = Annotated[
    list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Only with this label; may be repeated.")
]
Ratios = Annotated[
    list[str] | None,
    typer.Option("--overcommit", metavar="NAME=RATIO", help="How often a dimension may be given away, such as cpu=4."),
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShapeOptions:
    """What decides where a VM may go."""

    cpu: Annotated[str | None, typer.Option(metavar="CORES", help="Cores: 4, 0.5 or 1500m.")] = None
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory: 8GiB, 8G or 8192 (MiB).")] = None
    disk: Annotated[str | None, typer.Option(metavar="SIZE", help="Disk: 100 (GiB) or 2T.")] = None
    gpu: Annotated[int | None, typer.Option(min=0, metavar="N", help="GPUs.")] = None
    resource: Annotated[
        list[str] | None, typer.Option(metavar="NAME=N", help="Any other resource, such as licences=2.")
    ] = None
    pool: Annotated[
        str | None,
        typer.Option(metavar="POOL", parser=pool_name, help='The pool to place in ("-" is the pool "").'),
    ] = None
    dedicated: Annotated[
        DedicatedWord | None,
        typer.Option(
            metavar="WORD", help="required, allowed or forbidden: must, may or must not the host be a dedicated one?"
        ),
    ] = None
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label that the host must carry.")] = (
        None
    )
    zone: Annotated[str | None, typer.Option(metavar="ZONE", help="The zone that the host must be in.")] = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions(ShapeOptions):
    """Everything that may be said about a VM that is wanted."""

    strategy: Annotated[
        str | None, typer.Option(metavar="NAME", help="How to choose among hosts; see `virtflow get strategies`.")
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=W", help="A weight for strategies that take some, such as cpu=0.7."),
    ] = None
    priority: Annotated[int | None, typer.Option(min=0, max=1000, metavar="N", help="Higher is placed first.")] = None
    fail: Annotated[
        bool | None, typer.Option("--fail/--queue", help="Without room: give up, or wait for it (the default).")
    ] = None
    deadline: Annotated[
        int | None, typer.Option(min=1, metavar="SECONDS", help="Give up when it still waits then.")
    ] = None


D = TypeVar("D")


def takes(options: type[D]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command the fields of a dataclass as options; the command gets them as one record named `options`."""
    hints = typing.get_type_hints(options, include_extras=True)
    fields = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
        )
        for field in dataclasses.fields(options)  # type: ignore[arg-type]  # any dataclass will do
    ]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(command).parameters.values()
            if parameter.name != "options"
        ]

        @functools.wraps(command)
        def with_record(**given: Any) -> Any:
            record = options(**{field.name: given.pop(field.name) for field in fields})
            return command(**given, options=record)

        # typer reads the signature, and the annotations beside it
        with_record.__signature__ = inspect.Signature([*own, *fields])  # type: ignore[attr-defined]
        with_record.__annotations__ = {each.name: each.annotation for each in [*own, *fields]}
        return with_record

    return decorate
