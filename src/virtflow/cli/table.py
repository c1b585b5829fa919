"""Tables: aligned columns without lines, that lose columns rather than parts of names when it gets narrow."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from virtflow.cli.screen import Screen

Row = TypeVar("Row")
GAP = "  "
#: where even that does not fit, prose goes away altogether
PROSE_WIDTH_MIN = 24


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    title: str
    text: Callable[[Row], str]
    #: only when asked for more
    is_wide: bool = False
    #: stays however narrow the screen is
    is_needed: bool = False
    is_number: bool = False
    #: sentences, which may be broken into lines where names may not
    is_prose: bool = False
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
            drawn.append(_Drawn(column, cells, max(map(len, [column.title, *cells]))))
    if screen.width and not wide:
        drawn = _fitting(drawn, screen.width)
    yield _line([(each, each.column.title, "bold") for each in drawn], screen)
    for number, row in enumerate(rows):
        cells_of_row = [(each, each.cells[number], each.column.style(row)) for each in drawn]
        yield _line([(each, _first_line(text, each), style) for each, text, style in cells_of_row], screen)
        yield from _more_lines(cells_of_row)


@dataclass(frozen=True, slots=True)
class _Drawn(Generic[Row]):
    column: Column[Row]
    cells: list[str]
    width: int


def _fitting(drawn: list[_Drawn[Row]], screen_width: int) -> list[_Drawn[Row]]:
    """Prose is made narrower; then the last column that is not needed goes first."""
    kept = [_with_width(each, min(each.width, PROSE_WIDTH_MIN)) if each.column.is_prose else each for each in drawn]
    while _total(kept) > screen_width:
        droppable = [place for place, each in enumerate(kept) if not each.column.is_needed]
        if not droppable:
            break
        kept.pop(droppable[-1])
    spare = max(0, screen_width - _total(kept))
    widths = {id(each.column): each.width for each in drawn}
    return [_with_width(each, min(widths[id(each.column)], each.width + spare)) for each in kept]


def _with_width(each: _Drawn[Row], width: int) -> _Drawn[Row]:
    return _Drawn(each.column, each.cells, width)


def _total(drawn: Sequence[_Drawn[Row]]) -> int:
    return sum(each.width for each in drawn) + len(GAP) * (len(drawn) - 1)


def _wrapped(text: str, each: _Drawn[Row]) -> list[str]:
    return textwrap.wrap(text, each.width) if each.column.is_prose and len(text) > each.width else [text]


def _first_line(text: str, each: _Drawn[Row]) -> str:
    return _wrapped(text, each)[0]


def _more_lines(cells: Sequence[tuple[_Drawn[Row], str, str]]) -> Iterator[str]:
    """The rest of prose, below its beginning. There is one such column at most, the last."""
    each, text, _ = cells[-1]
    indent = _total([before for before, _, _ in cells[:-1]]) + len(GAP) if len(cells) > 1 else 0
    for line in _wrapped(text, each)[1:]:
        yield " " * indent + line


def _line(cells: Sequence[tuple[_Drawn[Row], str, str]], screen: Screen) -> str:
    parts = []
    for place, (each, text, style) in enumerate(cells):
        is_last = place == len(cells) - 1
        padding = " " * (each.width - len(text))
        painted = screen.paint(text, style)
        parts.append(padding + painted if each.column.is_number else painted + ("" if is_last else padding))
    return GAP.join(parts).rstrip()


def draw_facts(facts: Sequence[tuple[str, str]], screen: Screen) -> Iterator[str]:
    """`name   value` lines; what is empty is not said."""
    said = [(name, value) for name, value in facts if value]
    width = max((len(name) for name, _ in said), default=0)
    for name, value in said:
        yield f"{screen.paint(name.ljust(width), 'dim')}{GAP}{value}"
