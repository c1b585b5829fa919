"""Answers as tables, JSON, YAML or names."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from virtflow.cli.options import Format
from virtflow.cli.screen import Screen, harmless, screen_of
from virtflow.cli.table import Column, draw_table

if TYPE_CHECKING:
    from virtflow.client.pages import Pages
    from virtflow.client.records import Record

#: a table longer than that is read by nobody; the other formats are for programs and never cut short
TABLE_ROWS_MAX = 1000

R = TypeVar("R", bound="Record")


def show(lines: Iterable[str]) -> None:
    for line in lines:
        print(harmless(line))


def say(*lines: str) -> None:
    """To the side: for people, not for the pipe."""
    for line in lines:
        print(harmless(line), file=sys.stderr)


def limit_for(output: Format, limit: int | None) -> int | None:
    return TABLE_ROWS_MAX if limit is None and output in {Format.TABLE, Format.WIDE} else limit


def show_list(
    items: "Pages[R] | Sequence[R]",
    columns: Sequence[Column[R]],
    name: Callable[[R], str],
    *,
    output: Format,
    kind: str,
) -> None:
    match output:
        case Format.JSON:
            show(_json_list(items))
        case Format.YAML:
            show(_yaml_list(items))
        case Format.NAME:
            show(name(item) for item in items)
        case _:
            rows = list(items)
            _show_table(rows, columns, wide=output is Format.WIDE, kind=kind)
            if getattr(items, "has_more", False):
                say(f"These are the first {len(rows):,}; --limit shows more, -o name or json shows all.")


def _show_table(rows: Sequence[R], columns: Sequence[Column[R]], *, wide: bool, kind: str) -> None:
    if rows:
        show(draw_table(rows, columns, screen_of(), wide=wide))
    else:
        say(f"No {kind}.")


def show_one(item: "Record", output: Format, draw: Callable[[Screen], Iterator[str]], name: str) -> None:
    match output:
        case Format.JSON:
            show([as_json(item.document)])
        case Format.YAML:
            show([as_yaml(item.document).rstrip()])
        case Format.NAME:
            show([name])
        case _:
            show(draw(screen_of()))


def as_json(document: object) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def as_yaml(document: object) -> str:
    import yaml

    return yaml.dump(
        document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, allow_unicode=True
    )


def _json_list(items: "Iterable[Record]") -> Iterator[str]:
    """Written while it is read: a list of a million needs no memory."""
    yield "["
    held = ""
    for item in items:
        if held:
            yield held + ","
        held = "  " + as_json(item.document).replace("\n", "\n  ")
    if held:
        yield held
    yield "]"


def _yaml_list(items: "Iterable[Record]") -> Iterator[str]:
    is_empty = True
    for item in items:
        is_empty = False
        yield as_yaml([item.document]).rstrip()
    if is_empty:
        yield "[]"
