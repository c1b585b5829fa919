"""Tables: aligned columns without lines, that lose columns rather than parts of names when it gets narrow."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from virtflow.cli.screen import Screen

Row = TypeVar("Row")
GAP = "  "


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    title: str
    text: Callable[[Row], str]
    #: only when asked for more
    is_wide: bool = False
    #: stays however narrow the screen is
    is_needed: bool = False
    is_number: bool = False
    #: the style of a cell
    style: Callable[[Row], str] = lambda _: ""


def draw_table(
    rows: Sequence[Row], columns: Sequence[Column[Row]], screen: Screen, *, wide: bool = False
) -> Iterator[str]:
    """Header and rows. Columns that say nothing in any row are left out, unless needed."""
    drawn = []
    for column in columns:
        cells = [column.text(row) for row in rows]
        if (wide or not column.is_wide) and (column.is_needed or any(cells)):
            drawn.append((column, cells, max(map(len, [column.title, *cells]))))
    drawn = _fitting(drawn, None if wide else screen.width)
    yield _line([(column, column.title, width, "bold") for column, _, width in drawn], screen)
    for number, row in enumerate(rows):
        yield _line([(column, cells[number], width, column.style(row)) for column, cells, width in drawn], screen)


Drawn = tuple[Column[Row], list[str], int]


def _fitting(drawn: list[Drawn[Row]], screen_width: int | None) -> list[Drawn[Row]]:
    """The last column that is not needed goes first."""
    kept = list(drawn)
    while screen_width and sum(width + len(GAP) for _, _, width in kept) - len(GAP) > screen_width:
        droppable = [place for place, (column, _, _) in enumerate(kept) if not column.is_needed]
        if not droppable:
            break
        kept.pop(droppable[-1])
    return kept


def _line(cells: Sequence[tuple[Column[Row], str, int, str]], screen: Screen) -> str:
    parts = []
    for place, (column, text, width, style) in enumerate(cells):
        is_last = place == len(cells) - 1
        padding = " " * (width - len(text))
        painted = screen.paint(text, style)
        parts.append(padding + painted if column.is_number else painted + ("" if is_last else padding))
    return GAP.join(parts).rstrip()


def draw_facts(facts: Sequence[tuple[str, str]], screen: Screen) -> Iterator[str]:
    """`name   value` lines; what is empty is not said."""
    said = [(name, value) for name, value in facts if value]
    width = max((len(name) for name, _ in said), default=0)
    for name, value in said:
        yield f"{screen.paint(name.ljust(width), 'dim')}{GAP}{value}"
