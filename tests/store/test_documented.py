"""The page about the store says what the store is."""

import re
from pathlib import Path

import apsw

from virtflow.store import migrations, postgres, session, sqlite, sqlite_session
from virtflow.store.interned import SHAPES_KEPT_MAX

PAGE = (Path(__file__).parents[2] / "docs/store.md").read_text()


def test_every_table_is_there() -> None:
    connection = apsw.Connection(":memory:")
    for step in migrations.steps("sqlite"):
        connection.execute(step.sql)
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    told = set(re.findall(r"^\| `([a-z]+)` \|", PAGE, flags=re.MULTILINE))
    assert told == {name for (name,) in found} | {"schema"}


def test_the_bounds_are_what_the_code_says() -> None:
    for figure in (
        f"{sqlite.WAL_PAGES * 4 // 1000} MiB",
        f"{sqlite.WAL_PAGES_MAX * 4 // 1000} MiB",
        f"{sqlite.CHECKED_BYTES_MAX // 2**20} MiB",
        f"{sqlite.BUSY_WAIT_S:.0f} s",
        f"{postgres.SNAPSHOT_REST_S:.0f} s",
        f"{SHAPES_KEPT_MAX:,}",
        f"{sqlite_session.ROWS_PER_STATEMENT} rows",
    ):
        assert figure in PAGE
    assert session.CHUNK_ROWS <= 1_000
