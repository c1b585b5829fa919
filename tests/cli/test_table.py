"""Tables that fit."""

from tests.cli.test_words import NOW

from virtflow.cli.screen import Screen
from virtflow.cli.table import Column, draw_facts, draw_table

Row = tuple[str, ...]
ROWS: list[Row] = [("vm-0123456789abcdef", "general", "4", "sentences that go on and on"), ("b", "ai", "16", "short")]
COLUMNS: list[Column[Row]] = [
    Column("NAME", lambda row: row[0], is_needed=True),
    Column("POOL", lambda row: row[1]),
    Column("CPU", lambda row: row[2], is_number=True),
    Column("NOTHING", lambda _: ""),
    Column("MORE", lambda _: "more", is_wide=True),
]
PROSE: Column[Row] = Column("WHY", lambda row: row[3], is_needed=True, is_prose=True)


def draw(width: int | None, *, wide: bool = False, prose: bool = False, colour: bool = False) -> list[str]:
    screen = Screen(width=width, has_colour=colour, now=NOW)
    return list(draw_table(ROWS, [*COLUMNS, PROSE] if prose else COLUMNS, screen, wide=wide))


def test_columns_that_say_nothing_are_left_out() -> None:
    assert draw(80) == [
        "NAME                 POOL     CPU",
        "vm-0123456789abcdef  general    4",
        "b                    ai        16",
    ]


def test_wide_columns_come_when_asked_for() -> None:
    assert draw(80, wide=True)[0].endswith("CPU  MORE")


def test_a_narrow_screen_loses_columns_and_never_a_part_of_a_name() -> None:
    assert draw(28)[:2] == ["NAME                 POOL", "vm-0123456789abcdef  general"]
    assert draw(5) == ["NAME", "vm-0123456789abcdef", "b"]


def test_a_pipe_gets_everything_on_one_line() -> None:
    assert draw(None, prose=True)[1] == "vm-0123456789abcdef  general    4  sentences that go on and on"


def test_prose_is_broken_into_lines() -> None:
    assert draw(60, prose=True)[1:3] == [
        "vm-0123456789abcdef  general    4  sentences that go on and",
        " " * 35 + "on",
    ]


def test_colours_do_not_move_the_columns() -> None:
    plain, coloured = draw(80), draw(80, colour=True)
    assert coloured[0].startswith("\x1b[1mNAME\x1b[0m")
    assert coloured[1:] == plain[1:]


def test_facts_that_are_empty_are_not_said() -> None:
    screen = Screen(now=NOW)
    assert list(draw_facts([("host", "bm-1"), ("zone", ""), ("a", "b")], screen)) == ["host  bm-1", "a     b"]
