"""The SQL files: every block is found, used, and understood by both databases."""

import re
from pathlib import Path

import apsw
import asyncpg
import pytest

from virtflow.store import hosts, migrations
from virtflow.store.statements import Dialect, statements

DIALECTS: list[Dialect] = ["sqlite", "postgresql"]
STORE = Path(hosts.__file__).parent
#: Blocks that other blocks contain, and those that only the writing session of SQLite looks for.
_PIECES = re.compile(r".*_columns|.*_at_once")
_PLACEHOLDER = re.compile(r"\$(\d+)")


def used_names() -> set[str]:
    source = "".join(file.read_text() for file in STORE.glob("*.py"))
    return set(re.findall(r'"([a-z_]+)"', source))


def test_both_dialects_have_the_same_statements() -> None:
    names = [{name for name in statements(dialect) if not _PIECES.fullmatch(name)} for dialect in DIALECTS]
    assert names[0] == names[1]


def test_every_statement_is_used() -> None:
    unused = {name for name in statements("sqlite") if not _PIECES.fullmatch(name)} - used_names()
    assert unused == set()


def test_every_block_begins_with_a_sentence() -> None:
    for file in (STORE / "sql").glob("*.sql"):
        for block in re.split(r"^-- [a-z_]+(?: \[[a-z]+\])? --\n", file.read_text(), flags=re.MULTILINE)[1:]:
            assert re.match(r"-- [A-Z]", block), f"{file.name}: {block[:60]!r}"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_piece_is_left_open(dialect: Dialect) -> None:
    for name, sql in statements(dialect).items():
        assert not re.search(r"\{[a-z_]+\}", sql), name
        assert "--" not in sql, name
        assert not sql.endswith(";"), name


def test_placeholders_are_first_used_in_order() -> None:
    """SQLite counts them as they come; `$2` before `$1` would be given the first argument."""
    for name, sql in statements("sqlite").items():
        numbers = [int(number) for number in _PLACEHOLDER.findall(sql)]
        assert list(dict.fromkeys(numbers)) == list(range(1, len(set(numbers)) + 1)), name


def test_sqlite_understands_all() -> None:
    connection = apsw.Connection(":memory:")
    for step in migrations.steps("sqlite"):
        connection.execute(step.sql)
    for name, sql in statements("sqlite").items():
        if not name.endswith("_columns"):
            connection.execute(f"EXPLAIN {sql}", tuple(1 for _ in set(_PLACEHOLDER.findall(sql)))).fetchall()


@pytest.mark.service("postgresql")
async def test_postgresql_understands_all(postgresql_url: str) -> None:
    server = await asyncpg.connect(postgresql_url)
    for name, sql in statements("postgresql").items():
        if not name.endswith(("_columns", "_at_once")) and not sql.startswith("COPY"):
            await server.prepare(sql)
    await server.close()
